"""How large the groups of equal states are, early and late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apportion.check.moves import Moves
from apportion.check.registry import measure
from apportion.numerics import BoolArray, IntArray, labels
from apportion.units import Units

BINS = ((1, 1), (2, 2), (3, 5), (6, 9), (10, 49), (50, None))
"""Sizes of state groups, as the GiGPO paper's figure has them from 10 on."""


@measure("state-groups", on="units")
def state_groups(units: Units) -> Mapping[str, Any]:
    """Share of the steps whose state another rollout of the group visits, and sizes of the state groups early and late.

    "Early" and "late" are the first and the second half of the groups in the file: of a log that a run wrote, the
    beginning and the end of training. The same by place in the rollout: its first and its second half of steps.
    """
    if units.state_S is None or not len(units):
        return {}
    moves = Moves(units)
    comparable = moves.comparable_S
    if not comparable.any():
        return {}
    met_S = company(moves)
    half_S = units.group_of_S >= (len(units.batch.group_names) + 1) // 2
    length_S = np.bincount(units.traj_of_S)[units.traj_of_S]
    second_S = moves.time_S >= (length_S + 1) // 2
    out: dict[str, Any] = {
        "steps": int(np.count_nonzero(comparable)),
        "states": len(np.unique(moves.state_S[comparable])),
        "with_company": float(np.mean(met_S[comparable])),
        "bins": [f"{lo}" if lo == hi else f"{lo}+" if hi is None else f"{lo}-{hi}" for lo, hi in BINS],
        "groups_by_size": _histogram(moves.state_S[comparable]),
    }
    for name, late_S in (("by_file", half_S), ("by_place", second_S)):
        for when, part_S in (("early", ~late_S), ("late", late_S)):
            chosen = comparable & part_S
            out[f"{name}_{when}"] = {
                "steps": int(np.count_nonzero(chosen)),
                "with_company": float(np.mean(met_S[chosen])) if chosen.any() else None,
                "groups_by_size": _histogram(moves.state_S[chosen]),
            }
    return out


def company(moves: Moves) -> BoolArray:
    """Steps in a state that another rollout of the group visits too."""
    pair = labels(moves.state_S, moves.units.traj_of_S)
    first = np.unique(pair, return_index=True)[1]
    rollouts = np.bincount(moves.state_S[first], minlength=int(moves.state_S.max(initial=-1)) + 1)
    out: BoolArray = rollouts[moves.state_S] > 1
    return out


def _histogram(state_S: IntArray) -> list[float]:
    """Share of the state groups in each bin of `BINS`; zeros where there are none."""
    size = np.bincount(state_S) if len(state_S) else np.zeros(0, dtype=np.int64)
    size = size[size > 0]
    counts = [int(np.count_nonzero((size >= lo) & (size <= (hi or size.max(initial=1))))) for lo, hi in BINS]
    return [n / max(len(size), 1) for n in counts]
