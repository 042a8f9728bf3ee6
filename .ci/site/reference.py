"""The reference: the names of the package's front, then each room's own, every one rendered once from its docstring."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType
from typing import Any

import apportion

FRONT = "reference/front.md"
ROOMS = {
    "data": "Rollouts",
    "units": "Units",
    "methods": "Methods",
    "credit": "Credit",
    "assign": "Assigning",
    "asks": "Asks",
    "resources": "Resources",
    "losses": "Losses",
    "losses.pairs": "Preference losses",
    "models": "Models",
    "envs": "Environments",
    "envs.conformance": "Checks of environments",
    "train": "Training",
    "adapters.trl": "Inside TRL",
    "adapters.verl": "Inside verl",
    "adapters.tinker": "For Tinker",
    "adapters.rllm": "For rLLM",
    "adapters.trinity": "For Trinity-RFT",
    "adapters.verifiers": "For verifiers and prime-rl",
    "adapters.slime": "For slime",
    "adapters.log": "A trainer's log",
    "adapters.crediting": "A host's settings",
    "adapters.rows": "A host's rows",
    "adapters.readers": "Readers",
    "adapters.volume": "Folders of rollouts",
    "check": "Checks",
    "recommend": "The guide",
    "report": "Reports",
    "grams": "Strategic Grams",
    "bench.exact": "Exact answers",
    "bench.tasks": "Tasks with exact answers",
    "testing": "Testing",
    "numerics": "Arithmetic",
    "errors": "Errors",
}


def nav() -> list[Any]:
    """The front, the rooms, the command line."""
    rooms = [{f"apportion.{room}": f"reference/{room}.md"} for room in ROOMS if public(room)]
    return [{"import apportion as ap": FRONT}, {"The command line": "reference/command-line.md"}, {"Rooms": rooms}]


def public(room: str) -> tuple[str, ...]:
    """Names that a room offers and the front does not show."""
    module = importlib.import_module(f"apportion.{room}")
    names = getattr(module, "__all__", None)
    if names is None:
        names = [
            n
            for n, v in vars(module).items()
            if not n.startswith("_") and getattr(v, "__module__", "") == module.__name__
        ]
    front = {path(apportion, name) for name in apportion.__all__}
    return tuple(n for n in names if path(module, n) not in front and not inspect.ismodule(getattr(module, n)))


def path(module: ModuleType, name: str) -> str:
    """Where a name is defined, as griffe finds it: by the object's own account, or by following the import."""
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{module.__name__}.{name}"


def anchors() -> list[str]:
    """Where the entry of every public name is found: the front's, and those of all rooms."""
    rooms = [(importlib.import_module(f"apportion.{room}"), public(room)) for room in ROOMS]
    return [path(module, name) for module, names in [(apportion, apportion.__all__), *rooms] for name in names]


def pages() -> dict[str, str]:
    """The index, the front, and a page for each room."""
    out = {FRONT: front(), "reference/index.md": index()}
    for room in ROOMS:
        if names := public(room):
            out[f"reference/{room}.md"] = room_page(room, names)
    return out


def index() -> str:
    """Every public name with its first line."""
    lines = ["# Reference", "", "Every public name. What is not here is private and may change.", ""]
    lines += ["## `import apportion as ap`", "", "| name | |", "|---|---|"]
    lines += [row(apportion, name) for name in apportion.__all__]
    for room, title in ROOMS.items():
        if names := public(room):
            module = importlib.import_module(f"apportion.{room}")
            lines += ["", f"## {title}: `apportion.{room}`", "", "| name | |", "|---|---|"]
            lines += [row(module, name) for name in names]
    return "\n".join(lines) + "\n"


def row(module: ModuleType, name: str) -> str:
    """A name that leads to its entry, and what it is."""
    value = getattr(module, name)
    documented = inspect.isclass(value) or callable(value)
    first = (inspect.getdoc(value) or "").strip().split("\n\n")[0].replace("\n", " ") if documented else ""
    about = first.replace("|", "\\|").replace("<", "&lt;")
    return f"| [`{name}`][{path(module, name)}] | {about} |"


def front() -> str:
    """Names that stand on the package itself."""
    parts = [
        "# import apportion as ap",
        "The functions and types that most code needs; each is loaded when it is first used.",
    ]
    parts += [entry(apportion, name, f"ap.{name}") for name in apportion.__all__]
    return "\n\n".join(parts) + "\n"


def room_page(room: str, names: tuple[str, ...]) -> str:
    """What else a room offers."""
    module = importlib.import_module(f"apportion.{room}")
    about = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    lead = "\n\n".join(
        f"```text\n{inspect.cleandoc(p)}\n```" if p.startswith("    ") else p.replace("<", "&lt;") for p in about
    )
    parts = [f"# apportion.{room}", lead]
    parts += [entry(module, name, name) for name in names]
    return "\n\n".join(parts) + "\n"


def entry(module: ModuleType, name: str, heading: str) -> str:
    """One object, by its own path."""
    return f"::: {path(module, name)}\n    options:\n      heading: {heading}\n      toc_label: {heading}"
