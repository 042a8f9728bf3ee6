"""Who does the pieces of a run: this process, one after the other, or the workers of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from apportion.errors import ConfigError

Job = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function of a module, and plain arguments."""


class Engine(Protocol):
    """Runs pieces of work that do not know of each other."""

    def run(self, jobs: Mapping[str, Job]) -> Iterator[tuple[str, Any]]:
        """Results by name, as they are finished."""
        ...


class Local:
    """One after the other, in this process."""

    def run(self, jobs: Mapping[str, Job]) -> Iterator[tuple[str, Any]]:
        """Results by name, in order."""
        for name, (function, arguments) in jobs.items():
            yield name, function(*arguments)


def engine_of(engine: str | Engine) -> Engine:
    """The engine of that name.

    Raises:
        ConfigError: there is none. MissingExtra: Ray is not installed.
    """
    if not isinstance(engine, str):
        return engine
    if engine == "local":
        return Local()
    if engine == "ray":
        from apportion.adapters.volume.ray import RayEngine

        return RayEngine()
    raise ConfigError(f"no engine named {engine!r}; there are local and ray")
