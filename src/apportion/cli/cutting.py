"""Rollouts and the units of a command line: ``--unit "segment(by='cutpoint')" --states normalised``."""

from __future__ import annotations

import difflib
import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.cli.params import cut_of
from apportion.cli.sources import load
from apportion.errors import ConfigError

if TYPE_CHECKING:
    from apportion.units import Units


def checked_cut(unit: str, states: str) -> tuple[str, dict[str, Any]]:
    """Level and options of a cut, checked before any file is read.

    Raises:
        ConfigError: there is no such level, option or rule of states.
    """
    from apportion.units import CUTS, STATES

    level, keyed = cut_of(unit)
    if level not in CUTS:
        near = difflib.get_close_matches(level.casefold(), CUTS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(CUTS)}"
        raise ConfigError(f"no unit named {level!r}; {hint}")
    takes = inspect.signature(CUTS[level]).parameters
    for name in keyed:
        if name not in takes:
            raise ConfigError(f"by_{level} takes no {name}; it takes {', '.join(list(takes)[1:]) or 'no options'}")
    if states not in STATES:
        raise ConfigError(f"no state rule named {states!r}; there are {', '.join(STATES)}")
    if states != "exact" and "state" not in takes:
        raise ConfigError(f"--states {states} needs units with states, and by_{level} has none; cut by step or turn")
    return level, keyed | ({"state": states} if states != "exact" else {})


def cut_file(
    path: Path,
    cut: tuple[str, dict[str, Any]],
    *,
    form: str | None,
    group_by: str | None,
    outcome: str | None,
    skip_bad: bool,
) -> Units:
    """The units of a file of rollouts."""
    from apportion.units import CUTS

    level, options = cut
    return CUTS[level](load(path, form=form, group_by=group_by, outcome=outcome, skip_bad=skip_bad), **options)
