"""The checks: each a function that yields what it finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from apportion.check.findings import Finding, Yields
from apportion.errors import ConfigError

SUBJECTS = ("rollouts", "batch", "credit")
"""What a check looks at: trajectories before they are a batch, a `Batch`, a `Credit`."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: of the check; its findings have this code, or codes that begin with it and a slash.
        on: one of `SUBJECTS`.
        about: one line: what it finds.
        call: subject → findings.
    """

    name: str
    on: str
    about: str
    call: Callable[[Any], Yields]


_CHECKS: dict[str, Check] = {}


def register(name: str, *, on: str) -> Callable[[Callable[[Any], Yields]], Callable[[Any], Yields]]:
    """Put a check into the registry; the first line of its docstring says what it finds.

    Raises:
        ConfigError: the name is taken, the subject unknown, or there is no docstring.
    """

    def decorate(function: Callable[[Any], Yields]) -> Callable[[Any], Yields]:
        if on not in SUBJECTS:
            raise ConfigError(f"check {name!r}: no subject named {on!r}; there are {', '.join(SUBJECTS)}")
        if name in _CHECKS and _CHECKS[name].call.__module__ != function.__module__:
            raise ConfigError(f"the check {name!r} is already there; give yours another name")
        about = (function.__doc__ or "").strip().partition("\n")[0]
        if not about:
            raise ConfigError(f"check {name!r} has no docstring; say in one line what it finds")
        _CHECKS[name] = Check(name, on, about, function)
        return function

    return decorate


def checks(on: str | None = None) -> tuple[Check, ...]:
    """Registered checks, by name."""
    return tuple(_CHECKS[name] for name in sorted(_CHECKS) if on in (None, _CHECKS[name].on))


def run(on: str, subject: Any) -> list[Finding]:
    """Everything that the checks of a subject find."""
    out = []
    for entry in checks(on):
        for finding in entry.call(subject):
            if finding.code.partition("/")[0] != entry.name:
                raise ConfigError(f"check {entry.name!r} yielded the code {finding.code!r}; begin it with its name")
            out.append(finding)
    return out
