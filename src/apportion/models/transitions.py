"""Rollouts as transitions (state, action, reward, next state): windows of token ids that a causal trunk reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.data import Batch
from apportion.models.rows import Rows
from apportion.numerics import Array, IntArray
from apportion.units import Units
from apportion.units.cuts import steps_in_units

RECORD = np.dtype(
    [(f"{what}_{end}", "<i8") for what in ("state", "pair", "next") for end in ("from", "to")] + [("reward", "<f8")]
)
"""A transition: ``ids[from:to]`` is what stands before the action, what stands behind it, and what stands before the
next action; ``next_to`` is 0 where nothing follows."""
ENDS = ("bootstrap", "terminal")


@dataclass(frozen=True, slots=True, eq=False)
class Transitions:
    """K transitions.

    Attributes:
        ids: token ids of all their rows, one row after the other, int32.
        records: (K,) of `RECORD`, rewards in reward units.
    """

    ids: Array
    records: Array

    def __len__(self) -> int:
        return len(self.records)


def transitions_of(batch: Batch, units: Units, rows: Rows, *, longest: int, timeout: str = "bootstrap") -> Transitions:
    """Every unit as a transition.

    Args:
        batch: rollouts, all of which are read. units: their turns or steps. rows: the batch as the trunk reads it.
        longest: ids that the trunk takes; a longer context is cut on the left, to between half and all of that.
        timeout: what follows where a limit cut a rollout off: "bootstrap", the state behind it, or "terminal", nothing.
    """
    unit_of_step = steps_in_units(batch, units.level)[0]
    last_step = np.flatnonzero(np.append(np.diff(unit_of_step) != 0, True))
    starts = np.cumsum([0, *map(len, rows.ids)])[:-1]

    def window(row_K: IntArray, at_K: IntArray) -> tuple[IntArray, IntArray]:
        stride = max(longest // 2, 1)
        cut_K = -(-np.maximum(at_K - longest, 0) // stride) * stride
        return starts[row_K] + cut_K, starts[row_K] + at_K

    out = np.zeros(len(units), dtype=RECORD)
    first = units.step_of_S
    out["state_from"], out["state_to"] = window(rows.row_of_S[first], rows.at_S[first])
    out["pair_from"], out["pair_to"] = window(rows.row_of_S[last_step], rows.after_S[last_step])
    last_S, traj_S = units.last_S, units.traj_of_S
    for name in ("next_from", "next_to"):
        state = out[name.replace("next", "state")]
        out[name] = np.where(last_S, 0, np.append(state[1:], 0)[: len(state)])
    if timeout == "bootstrap":
        cut_off = np.flatnonzero(last_S & units.truncated_N[traj_S])
        n = traj_S[cut_off]
        out["next_from"][cut_off], out["next_to"][cut_off] = window(rows.row_of_N[n], rows.at_N[n])
    out["reward"] = units.reward_S
    return Transitions(np.concatenate(rows.ids).astype("<i4"), out)
