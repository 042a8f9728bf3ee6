"""A cut as text: a level, with the options of its function in brackets."""

from __future__ import annotations

import inspect
from typing import Any

from apportion.assign.expression import Leaf, parse
from apportion.errors import ConfigError
from apportion.units import CUTS


def read_cut(unit: str) -> tuple[str, dict[str, Any]]:
    """Level and options of ``"step"``, ``"step(state='normalised')"`` or ``"segment(by='newline')"``.

    Raises:
        ConfigError: not one level.
    """
    node = parse(unit)
    if not isinstance(node, Leaf):
        raise ConfigError(f"unit is {unit!r}; give one level, like 'step' or \"segment(by='newline')\"")
    return node.name, dict(node.params)


def check_cut(level: str, options: dict[str, Any]) -> None:
    """Refuse a level that there is not, or an option that it does not take.

    Raises:
        ConfigError: the name, and what there is.
    """
    if level not in CUTS:
        raise ConfigError(f"no unit named {level!r}; there are {', '.join(CUTS)}")
    takes = options_of(level)
    for name in options:
        if name not in takes:
            raise ConfigError(f"by_{level} takes no {name}; it takes {', '.join(takes) or 'no options'}")


def options_of(level: str) -> list[str]:
    """Names of the options that the cut of this level takes."""
    return list(inspect.signature(CUTS[level]).parameters)[1:]
