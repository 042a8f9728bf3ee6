"""The faults: each a way to spoil rollouts, and a likeness of it that is no fault."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from apportion.check import Findings, check, check_credit, compare_credits
from apportion.check.findings import SEVERITIES
from apportion.credit import Credit
from apportion.data import Trajectory

Rollouts = list[Trajectory]
Plant = Callable[[np.random.Generator, Rollouts], Any]
"""Rollouts → what is checked: rollouts, a `Credit`, or several by name."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of finding, with what must and what must not cause it.

    Attributes:
        code: of the finding. plant: makes the fault. likeness: something that looks like it and is none.
        level: mildest severity that counts as a finding.
    """

    code: str
    plant: Plant
    likeness: Plant
    level: str


_FAULTS: dict[str, Fault] = {}
FILES = ("groups", "states", "rewards", "texts", "credits")


def fault(code: str, *, likeness: Plant, level: str = "warning") -> Callable[[Plant], Plant]:
    """Put a fault into the table."""

    def decorate(plant: Plant) -> Plant:
        _FAULTS[code] = Fault(code, plant, likeness, level)
        return plant

    return decorate


def faults() -> Mapping[str, Fault]:
    """All faults by code."""
    for name in FILES:
        import_module(f"apportion.bench.check.{name}")
    return dict(sorted(_FAULTS.items()))


def findings_of(subject: Any) -> Findings:
    """What the checks say about rollouts, credit, or credits."""
    if isinstance(subject, Credit):
        return check_credit(subject)
    return compare_credits(subject) if isinstance(subject, dict) else check(subject)


def fires(one: Fault, found: Findings) -> bool:
    """The finding is there, and as severe as it has to be."""
    return any(SEVERITIES.index(f.severity) <= SEVERITIES.index(one.level) for f in found.of(one.code))
