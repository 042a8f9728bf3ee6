"""The checks and the measures: functions that yield what they find, and functions that count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apportion.check.findings import Finding, Yields
from apportion.errors import ConfigError

SUBJECTS = ("rollouts", "batch", "units", "credit", "credits")
"""What a check looks at: trajectories before they are a batch, a `Batch`, its steps with the keys of their states, a
`Credit`, or several credits of the same rollouts by name."""


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes:
        name: of the check; its findings have this code, or codes that begin with it and a slash.
        on: one of `SUBJECTS`.
        about: one line: what it finds.
        call: subject → findings.
        cheap: fast enough for every batch of a live run.
    """

    name: str
    on: str
    about: str
    call: Callable[[Any], Yields]
    cheap: bool = False


@dataclass(frozen=True, slots=True)
class Measure:
    """Numbers that are worth a look whether or not something is wrong.

    Attributes:
        name: key in `Findings.measures`. on: one of `SUBJECTS`. about: one line.
        call: subject → JSON values; an empty mapping where there is nothing to measure.
    """

    name: str
    on: str
    about: str
    call: Callable[[Any], Mapping[str, Any]]


_CHECKS: dict[str, Check] = {}
_MEASURES: dict[str, Measure] = {}


def register(
    name: str, *, on: str, cheap: bool = False
) -> Callable[[Callable[[Any], Yields]], Callable[[Any], Yields]]:
    """Put a check into the registry; the first line of its docstring says what it finds.

    Raises:
        ConfigError: the name is taken, the subject unknown, or there is no docstring.
    """

    def decorate(function: Callable[[Any], Yields]) -> Callable[[Any], Yields]:
        if name in _CHECKS and _CHECKS[name].call.__module__ != function.__module__:
            raise ConfigError(f"the check {name!r} is already there; give yours another name")
        _CHECKS[name] = Check(name, on, _about("check", name, on, function), function, cheap)
        return function

    return decorate


def measure(
    name: str, *, on: str
) -> Callable[[Callable[[Any], Mapping[str, Any]]], Callable[[Any], Mapping[str, Any]]]:
    """Put a measure into the registry, as `register` does with checks."""

    def decorate(function: Callable[[Any], Mapping[str, Any]]) -> Callable[[Any], Mapping[str, Any]]:
        if name in _MEASURES and _MEASURES[name].call.__module__ != function.__module__:
            raise ConfigError(f"the measure {name!r} is already there; give yours another name")
        _MEASURES[name] = Measure(name, on, _about("measure", name, on, function), function)
        return function

    return decorate


def _about(what: str, name: str, on: str, function: Callable[..., Any]) -> str:
    if on not in SUBJECTS:
        raise ConfigError(f"{what} {name!r}: no subject named {on!r}; there are {', '.join(SUBJECTS)}")
    about = (function.__doc__ or "").strip().partition("\n")[0]
    if not about:
        raise ConfigError(f"{what} {name!r} has no docstring; say in one line what it finds")
    return about


def checks(on: str | None = None, *, cheap: bool = False) -> tuple[Check, ...]:
    """Registered checks, by name; ``cheap`` leaves out those too slow for a live run."""
    found = (_CHECKS[name] for name in sorted(_CHECKS))
    return tuple(entry for entry in found if on in (None, entry.on) and (entry.cheap or not cheap))


def measures(on: str | None = None) -> tuple[Measure, ...]:
    """Registered measures, by name."""
    return tuple(_MEASURES[name] for name in sorted(_MEASURES) if on in (None, _MEASURES[name].on))


def run(on: str, subject: Any, *, cheap: bool = False) -> list[Finding]:
    """Everything that the checks of a subject find."""
    out = []
    for entry in checks(on, cheap=cheap):
        found = entry.call(subject)
        if not isinstance(found, Iterable):
            raise ConfigError(f"check {entry.name!r} returned a {type(found).__name__}; yield findings")
        for finding in found:
            if finding.code.partition("/")[0] != entry.name:
                raise ConfigError(f"check {entry.name!r} yielded the code {finding.code!r}; begin it with its name")
            out.append(finding)
    return out


def run_measures(on: str, subject: Any) -> dict[str, Mapping[str, Any]]:
    """What the measures of a subject say, without those that have nothing to say."""
    told = {entry.name: entry.call(subject) for entry in measures(on)}
    return {name: numbers for name, numbers in told.items() if numbers}
