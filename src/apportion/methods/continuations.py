"""Values from continuations: returns of what came back, and credit as the change of value along time."""

from __future__ import annotations

import numpy as np

from apportion.asks import Answer
from apportion.credit import Credit
from apportion.methods.bootstrap import final_values
from apportion.numerics import BoolArray, FloatArray
from apportion.units import Units


def returns_of(answer: Answer, *, gamma: float = 1.0, unfinished: float | None = None) -> list[float]:
    """Returns of the continuations that could be scored, reward units.

    Args:
        answer: of a `Continue`.
        gamma: discount per step of the continuation.
        unfinished: return of one that was cut by its length; None = as its resource scored it.
    """
    return [
        unfinished if unfinished is not None and not sample.finished else sample.total(gamma)
        for sample in answer.samples
        if sample.scored
    ]


def mean_or_nan(values: list[float]) -> float:
    """Mean; NaN of nothing, which is unknown."""
    return float(np.mean(values)) if values else float("nan")


def change_of_value(units: Units, value_S: FloatArray, *, gamma: float, notes: dict[str, int]) -> Credit:
    """Credit r + gamma V(next) - V of each unit, where both values are known.

    Args:
        units: a chain of units per trajectory. value_S: value before each unit, NaN where unknown.
        gamma: discount per unit. notes: what else the reader should know.
    """
    last_S = last_units(units)
    final_M, blind = final_values(units)
    next_S = np.append(value_S[1:], 0.0)[: len(units)]
    next_S[last_S] = final_M
    known_S = units.valid_S & np.isfinite(value_S) & np.isfinite(next_S)
    parts = {"reward": units.reward_S, "next": gamma * next_S, "value": -value_S}
    parts = {name: np.where(known_S, part, 0.0) for name, part in parts.items()}
    unvalued = int(np.count_nonzero(units.valid_S & ~known_S))
    return Credit(
        np.asarray(sum(parts.values())),
        units,
        known_S=known_S,
        parts=parts,
        notes={**notes, **blind, **({"units_without_value": unvalued} if unvalued else {})},
    )


def fill_from_behind(units: Units, value_S: FloatArray, where_S: BoolArray, *, gamma: float) -> FloatArray:
    """Values with those of the units ``where_S`` replaced, last first, by r + gamma V(next): their credit becomes 0."""
    last_S, out = last_units(units), value_S.copy()
    final_N = dict(zip(np.unique(units.traj_of_S).tolist(), final_values(units)[0].tolist(), strict=True))
    for s in np.flatnonzero(where_S)[::-1].tolist():
        after = final_N[int(units.traj_of_S[s])] if last_S[s] else out[s + 1]
        out[s] = units.reward_S[s] + gamma * after
    return out


def last_units(units: Units) -> BoolArray:
    """The last unit of each trajectory."""
    return np.append(units.traj_of_S[1:] != units.traj_of_S[:-1], True)[: len(units)]
