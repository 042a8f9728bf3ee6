"""Environments by name: `make("crafttree", budget=4)`.

To add one: a file in this folder with `@register("name")` on a class or function that takes keyword
options with defaults. A package of its own names it in the entry-point group `apportion.envs`, as
`package/name`.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

from apportion.envs.protocol import TextEnv
from apportion.errors import ConfigError, UnknownName

ENTRY_POINTS = "apportion.envs"

Factory = TypeVar("Factory", bound=Callable[..., TextEnv])

_FACTORIES: dict[str, Callable[..., TextEnv]] = {}
_EXTRAS: dict[str, str] = {}


def register(name: str, *, extra: str = "") -> Callable[[Factory], Factory]:
    """Decorator: make this factory known under the name.

    Args:
        name: what `make` is given.
        extra: the extra of apportion that must be installed for its default options; "" = none.

    Raises:
        ConfigError: another factory has the name.
    """

    def add(factory: Factory) -> Factory:
        taken = _FACTORIES.get(name)
        if taken is not None and taken is not factory:
            raise ConfigError(
                f"environment {name!r} is already taken by {taken.__module__}; register yours as 'yourpackage/{name}'"
            )
        _FACTORIES[name] = factory
        _EXTRAS[name] = extra
        return factory

    return add


def names() -> tuple[str, ...]:
    """The registered names, sorted."""
    _load_folder()
    return tuple(sorted(_FACTORIES))


def extra_of(name: str) -> str:
    """The extra that an environment needs with its default options; "" = none."""
    _factory(name)
    return _EXTRAS[name]


def about(name: str) -> str:
    """One sentence: the first of the docstring of the file that the environment is defined in."""
    module = import_module(_factory(name).__module__)
    first = (inspect.getdoc(module) or "").split("\n\n")[0].replace("\n", " ")
    return first.partition(": ")[2] or first


def options(name: str) -> dict[str, Any]:
    """The options of an environment with their defaults."""
    parameters = inspect.signature(_factory(name)).parameters
    return {key: parameter.default for key, parameter in parameters.items()}


def make(name: str, **given: Any) -> TextEnv:
    """Make an environment.

    Raises:
        UnknownName: no environment of that name; suggests the nearest.
        ConfigError: an unknown option, or a value the environment does not take.
        MissingExtra: its package is not installed.
    """
    factory = _factory(name)
    takes = options(name)
    for key in given:
        if key not in takes:
            raise ConfigError(f"{name}: unknown option {key!r}; it takes {', '.join(sorted(takes)) or 'none'}")
    return factory(**given)


def resolve(reference: str, given: dict[str, Any] | None = None) -> Callable[[], TextEnv]:
    """A factory of fresh environments with these options, from a registered name or from "module:attribute"."""
    options_given = given or {}
    if ":" not in reference:
        return lambda: make(reference, **options_given)
    module, _, attribute = reference.partition(":")
    factory: Callable[..., TextEnv] = getattr(import_module(module), attribute)
    return lambda: factory(**options_given)


def _factory(name: str) -> Callable[..., TextEnv]:
    _load_folder()
    if name not in _FACTORIES:
        for point in entry_points(group=ENTRY_POINTS):
            if point.name == name:
                register(name)(point.load())
    if name not in _FACTORIES:
        near = get_close_matches(name, _FACTORIES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(_FACTORIES))}"
        raise UnknownName(f"no environment named {name!r}; {hint}")
    return _FACTORIES[name]


def _load_folder() -> None:
    package = import_module("apportion.envs")
    for module in pkgutil.iter_modules(package.__path__):
        import_module(f"apportion.envs.{module.name}")
