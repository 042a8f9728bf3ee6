"""`import apportion` loads NumPy and nothing heavier, proven in a clean process."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import apportion
from tests.test_architecture import MAY_LOAD_HEAVY, PACKAGE, fnmatch

HEAVY = (
    "torch transformers trl verl ray jax pandas scipy pyarrow numba pydantic matplotlib tensorboard "
    "minigrid gymnasium safetensors tokenizers"
)
CORE = (
    "import apportion, apportion.methods, apportion.units, apportion.testing; "
    "[getattr(apportion, name) for name in apportion.__all__]"
)


def leaked(statement: str, watch: str) -> str:
    """The watched packages that `statement` leaves loaded; or the traceback, if it does not run."""
    code = f"{statement}; import sys; sys.exit(', '.join(m for m in {watch.split()} if m in sys.modules) or 0)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return child.stderr.strip()


def test_core_needs_numpy_only():
    assert leaked(CORE, f"{HEAVY} typer rich") == ""


def test_the_leak_test_can_fail():
    assert leaked("import numpy", watch="torch numpy") == "numpy"
    assert leaked("import xml.dom, json", watch="xml json") == "xml, json"
    assert "ModuleNotFoundError" in leaked("import apportion.no_such_room", HEAVY)


def test_the_core_that_was_imported_is_this_one_and_not_empty():
    here = f"assert apportion.__file__ == {str(PACKAGE / '__init__.py')!r}, apportion.__file__"
    full = "assert len(apportion.methods()) >= 8 and callable(apportion.assign)"
    assert leaked(f"{CORE}; {here}; {full}", HEAVY) == ""


def light_modules() -> list[str]:
    """Every module of the package but those that belong to an extra."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE).as_posix()
        if path.name != "__main__.py" and not any(fnmatch(inside, pattern) for pattern in MAY_LOAD_HEAVY):
            parts = ("apportion", *Path(inside).with_suffix("").parts)
            found.append(".".join(part for part in parts if part != "__init__"))
    return found


def test_every_module_outside_the_extras_is_light():
    assert len(light_modules()) > 20
    assert leaked("import " + ", ".join(light_modules()), HEAVY) == ""


def test_the_package_alone_loads_no_room():
    rooms = "apportion.data apportion.methods apportion.assign apportion.check numpy"
    assert leaked("import apportion; dir(apportion)", rooms) == ""
    assert leaked("import apportion; apportion.Step", rooms) == "apportion.data, numpy"


def test_what_type_checkers_see_is_what_is_there():
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (told,) = (node for node in tree.body if isinstance(node, ast.If) and not isinstance(node.test, ast.UnaryOp))
    seen = {alias.name: line.module for line in told.body for alias in line.names}
    assert seen == apportion._WHERE
    assert {*seen, "write"} == set(apportion.__all__)
    for name, room in seen.items():
        assert getattr(apportion, name) is getattr(importlib.import_module(room), name)
    with pytest.raises(AttributeError, match="module 'apportion' has no attribute 'asign'"):
        apportion.asign  # noqa: B018


@pytest.mark.parametrize("name", ["assign", "methods", "check", "report"])
def test_a_function_is_not_hidden_by_the_room_of_the_same_name(name):
    # importing apportion.check sets the attribute `check` of the package to the module
    works = f"assert callable(apportion.{name}), apportion.{name}"
    assert leaked(f"import apportion; {works}; import apportion.{name}; {works}", HEAVY) == ""
    assert leaked(f"import apportion.{name}; import apportion; {works}", HEAVY) == ""


@pytest.mark.parametrize("arguments", [["methods"], ["--help"]])
def test_the_command_line_is_light(arguments):
    code = f"import sys; sys.argv = ['apportion', *{arguments!r}]\nfrom apportion.cli import main\n"
    code += "try: main()\nexcept SystemExit as end: assert not end.code, end.code\nprint()"
    assert leaked(code, HEAVY.replace("pydantic ", "")) == ""  # typer itself loads pydantic


def test_report_how_long_the_import_takes(record_property):
    code = "import time, numpy; t = time.perf_counter(); import apportion; print(time.perf_counter() - t)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    record_property("reported", f"import apportion: {1e3 * float(child.stdout):.0f} ms after numpy")


def test_learned_credit_without_torch_names_the_extra():
    code = "import sys; sys.modules['torch'] = None; import apportion as ap; ap.models"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.stderr.splitlines()[-1].endswith(
        "a credit model needs the package 'torch', which is not installed; run `pip install 'apportion[train]'`"
    )
