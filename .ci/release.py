"""Build the sdist, and the wheel from it, and check both as they would be published; `make release`.

    python .ci/release.py dist [arguments for pip]

Descriptions render, the wheel holds the package and nothing else, the sdist holds what builds, tests and documents it
and no results of experiments, and tests pass inside the unpacked sdist. The tools are installed in a folder that is
gone afterwards.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ("build", "twine", "check-wheel-contents")
IN_SDIST = (
    "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff", "LICENSE",
    "Makefile", "PKG-INFO", "src/apportion/py.typed", "tests/conftest.py", "docs/index.md", "examples/README.md",
    "constraints/known-good.txt", "constraints/oldest.txt", ".ci/run",
)  # fmt: skip
FOLDERS = {"src", "tests", "docs", "examples", "constraints", ".ci"}
LARGEST = 1 << 20
TESTED = ("tests/data/test_read.py", "tests/credit/test_files.py", "tests/test_public_api.py", "tests/examples")


def faults_of_sdist(names: dict[str, int]) -> list[str]:
    """What is missing from an sdist, and what should not be in it; names below its folder, with sizes."""
    wrong = [f"the sdist lacks {name}" for name in IN_SDIST if name not in names]
    for name, size in names.items():
        parts = name.split("/")
        junk = {"__pycache__", "results", "runs"} & set(parts) or name.endswith(".pyc")
        if junk or (len(parts) > 1 and parts[0] not in FOLDERS):
            wrong.append(f"the sdist holds {name}")
        if size > LARGEST:
            wrong.append(f"{name} in the sdist has {size >> 20} MiB")
    return wrong


def faults_of_wheel(names: list[str], package: set[str]) -> list[str]:
    """What a wheel holds beside the package and its metadata, and what it forgot."""
    wrong = [
        f"the wheel holds {n}" for n in names if not n.startswith(("apportion/", "apportion-")) or n.endswith(".pyc")
    ]
    wrong += [f"the wheel lacks {name}" for name in sorted(package - set(names))]
    if not any(name.endswith(".dist-info/licenses/LICENSE") for name in names):
        wrong.append("the wheel lacks the licence")
    return wrong


def main(out: Path, pip_arguments: list[str]) -> None:
    """Every check in turn; the first that fails ends the process."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

    def run(*command: str | Path, cwd: Path = ROOT, **more: str) -> None:
        subprocess.run([str(part) for part in command], cwd=cwd, env=environment | more, check=True)

    with tempfile.TemporaryDirectory(prefix="apportion-release-") as name:
        folder = Path(name)
        venv.create(folder / "venv", with_pip=True)
        tools = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        run(tools / "python", "-m", "pip", "install", "-qq", *pip_arguments, *TOOLS)
        run(tools / "python", "-m", "build", "--outdir", out, ROOT)
        (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
        run(tools / "twine", "check", "--strict", sdist, wheel)
        run(tools / "check-wheel-contents", wheel)
        with tarfile.open(sdist) as archive:
            members = {m.name.partition("/")[2]: m.size for m in archive.getmembers() if m.isfile()}
            archive.extractall(folder, filter="data")
        source = folder / sdist.name.removesuffix(".tar.gz")
        files = (p for p in (source / "src").rglob("*") if p.is_file())
        package = {p.relative_to(source / "src").as_posix() for p in files}
        wrong = faults_of_sdist(members) + faults_of_wheel(zipfile.ZipFile(wheel).namelist(), package)
        if wrong:
            sys.exit("\n".join(wrong))
        run(
            sys.executable,
            ROOT / ".ci" / "check_wheel.py",
            wheel,
            "-c",
            ROOT / "constraints/known-good.txt",
            *pip_arguments,
        )
        inside = [path for path in TESTED if (source / path).exists()]
        if len(inside) < len(TESTED):
            sys.exit(f"the sdist lacks one of {', '.join(TESTED)}")
        run(
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            *inside,
            cwd=source,
            PYTHONPATH=str(source / "src"),
        )
        sizes = [f"{path.name} {path.stat().st_size >> 10} KiB" for path in (sdist, wheel)]
        print(f"{', '.join(sizes)}: fit to publish")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
