"""The registry of enumerable tasks."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

from apportion.bench.stamped import Stamped
from apportion.envs.table import Enumerable, Table, tabulate
from apportion.errors import ConfigError, UnknownName

Make = TypeVar("Make", bound=Callable[..., Enumerable[Any]])

NOISY = "-noisy"


@dataclass(frozen=True)
class Task:
    """A game with exact answers.

    name        registry name
    about       what makes its credit hard
    strengths   beta of `exact.improve` for the policies to measure at, weak to strong
    rules       the game as pure functions
    small       options that make it so small that every rollout can be listed, for the independent check
    """

    name: str
    about: str
    strengths: tuple[float, ...]
    rules: Enumerable[Any]
    small: Mapping[str, Any]

    @cached_property
    def table(self) -> Table:
        """The game as arrays; walked once per process."""
        return tabulate(self.rules)


@dataclass(frozen=True)
class _Entry:
    about: str
    strengths: tuple[float, ...]
    small: Mapping[str, Any]
    make: Callable[..., Enumerable[Any]]


_TASKS: dict[str, _Entry] = {}


def register_task(
    name: str, *, about: str, strengths: tuple[float, ...], small: Mapping[str, Any]
) -> Callable[[Make], Make]:
    """Decorator: make the rules known as a task, and as its noisy variant ``NAME-noisy``.

    Raises:
        ConfigError: another task has the name.
    """

    def add(make: Make) -> Make:
        if name in _TASKS and _TASKS[name].make is not make:
            raise ConfigError(f"task {name!r} is already taken; register yours as 'yourpackage/{name}'")
        _TASKS[name] = _Entry(about, strengths, MappingProxyType(dict(small)), make)
        return make

    return add


def task_names(*, noisy: bool = False) -> tuple[str, ...]:
    """The registered tasks, sorted; ``noisy`` also lists the variant of each with ids and times in its texts."""
    _load_folder()
    return tuple(sorted([*_TASKS, *(name + NOISY for name in _TASKS if noisy)]))


def task(name: str, **options: Any) -> Task:
    """A task by name, with options of its rules. ``NAME-noisy`` takes ``stamps`` too, see `Stamped`.

    Raises:
        UnknownName: no task of that name; suggests the nearest.
        ConfigError: an unknown option.
    """
    _load_folder()
    plain = name.removesuffix(NOISY)
    if plain not in _TASKS:
        near = get_close_matches(name, task_names(noisy=True), n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(_TASKS))}"
        raise UnknownName(f"no task named {name!r}; {hint}")
    entry = _TASKS[plain]
    stamped = {"stamps": options.pop("stamps")} if name != plain and "stamps" in options else {}
    takes = sorted([*inspect.signature(entry.make).parameters, *(["stamps"] if name != plain else [])])
    for key in options:
        if key not in takes:
            raise ConfigError(f"task {name}: unknown option {key!r}; it takes {', '.join(takes) or 'none'}")
    rules = entry.make(**options)
    about = entry.about
    if name != plain:
        rules, about = Stamped(rules, **stamped), f"{about}; every text carries an id and a time of its own"
    return Task(name, about, entry.strengths, rules, entry.small)


def _load_folder() -> None:
    package = import_module("apportion.bench.tasks")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"apportion.bench.tasks.{module.name}")
