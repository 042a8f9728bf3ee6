"""The registry of enumerable tasks."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from typing import Any

from apportion.envs.table import Enumerable, Table, tabulate
from apportion.errors import ConfigError, UnknownName

Rules = Callable[..., Enumerable[Any]]


@dataclass(frozen=True)
class Task:
    """A game with exact answers.

    name        registry name
    about       what makes its credit hard
    strengths   beta of `exact.improve` for the policies to measure at, weak to strong
    rules       the game as pure functions
    """

    name: str
    about: str
    strengths: tuple[float, ...]
    rules: Enumerable[Any]

    @cached_property
    def table(self) -> Table:
        """The game as arrays; walked once per process."""
        return tabulate(self.rules)


@dataclass(frozen=True)
class _Entry:
    about: str
    strengths: tuple[float, ...]
    make: Rules


_TASKS: dict[str, _Entry] = {}


def register_task(name: str, *, about: str, strengths: tuple[float, ...]) -> Callable[[Rules], Rules]:
    """Decorator: make the rules known as a task.

    Raises:
        ConfigError: another task has the name.
    """

    def add(make: Rules) -> Rules:
        if name in _TASKS and _TASKS[name].make is not make:
            raise ConfigError(f"task {name!r} is already taken; register yours as 'yourpackage/{name}'")
        _TASKS[name] = _Entry(about, strengths, make)
        return make

    return add


def task_names() -> tuple[str, ...]:
    """The registered tasks, sorted."""
    _load_folder()
    return tuple(sorted(_TASKS))


def task(name: str, **options: Any) -> Task:
    """A task by name, with options of its rules.

    Raises:
        UnknownName: no task of that name; suggests the nearest.
        ConfigError: an unknown option.
    """
    _load_folder()
    if name not in _TASKS:
        near = get_close_matches(name, _TASKS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(_TASKS))}"
        raise UnknownName(f"no task named {name!r}; {hint}")
    entry = _TASKS[name]
    takes = sorted(inspect.signature(entry.make).parameters)
    for key in options:
        if key not in takes:
            raise ConfigError(f"task {name}: unknown option {key!r}; it takes {', '.join(takes) or 'none'}")
    return Task(name, entry.about, entry.strengths, entry.make(**options))


def _load_folder() -> None:
    package = import_module("apportion.bench.tasks")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"apportion.bench.tasks.{module.name}")
