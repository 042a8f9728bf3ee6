"""Install a wheel with its base dependencies in an empty environment and use it from another folder.

    python .ci/check_wheel.py dist/apportion-*.whl [arguments for pip, e.g. -c constraints/known-good.txt]

Checks that every file of the package is in the wheel, that `import apportion` and `apportion methods` work
with NumPy, typer and rich alone, and that nothing heavier is loaded.
"""

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
PROBE = """
import sys
import apportion
assert not apportion.__file__.startswith(sys.argv[1]), f"the checkout was imported: {apportion.__file__}"
assert apportion.methods(), "the registry is empty"
heavy = "torch transformers numba pyarrow pandas scipy matplotlib minigrid pydantic typer rich".split()
loaded = [name for name in heavy if name in sys.modules]
assert not loaded, f"import apportion loads {loaded}"
print("import apportion: NumPy only,", len(apportion.methods()), "methods, from", apportion.__version__)
"""


def missing_from(wheel: Path) -> set[str]:
    """Files of the package that the wheel forgot."""
    files = (p for p in SOURCE.rglob("*") if p.is_file() and "__pycache__" not in p.parts)  # bytecode, numba's cache
    here = {p.relative_to(SOURCE).as_posix() for p in files}
    return here - set(zipfile.ZipFile(wheel).namelist())


def main(wheel: Path, pip_arguments: list[str]) -> None:
    """Run every check; the first that fails ends the process with its reason."""
    if forgotten := missing_from(wheel):
        sys.exit(f"{wheel.name} lacks {sorted(forgotten)}")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    with tempfile.TemporaryDirectory(prefix="apportion-wheel-") as folder:
        venv.create(Path(folder) / "venv", with_pip=True)
        bin_folder = Path(folder) / "venv" / ("Scripts" if os.name == "nt" else "bin")

        def run(*command: str | Path) -> None:
            subprocess.run([str(part) for part in command], cwd=folder, env=environment, check=True)

        pip = [str(bin_folder / "python"), "-m", "pip", "install", "-qq"]
        subprocess.run([*pip, *pip_arguments, str(wheel)], env=environment, check=True)
        run(bin_folder / "python", "-c", PROBE, SOURCE)
        run(bin_folder / "apportion", "methods")
    print(f"{wheel.name}: installed and used in an empty environment")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), sys.argv[2:])
    except subprocess.CalledProcessError as error:
        sys.exit(f"{sys.argv[1]} does not work on its own: {Path(error.cmd[0]).name} ended with {error.returncode}")
