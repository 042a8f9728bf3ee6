"""How a value stands in its group, with every choice that trainers make differently as an argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apportion.errors import ConfigError
from apportion.numerics import Array, BoolArray, FloatArray, IntArray, centre, seg_count, to_go
from apportion.numerics.segments import SPREAD_TOLERANCE
from apportion.units import Units

LONE = ("zero", "raw")
VOTES = ("trajectory", "row")
CANCELLED = 1e-12
"""A sum below this share of its summands' magnitudes is rounding."""


def one_of(who: str, options: Sequence[str], **given: Any) -> None:
    """Raise one sentence unless each value given is among the options."""
    for name, value in given.items():
        if value not in options:
            raise ConfigError(f"{who}: {name} is {value!r}; give one of {', '.join(map(repr, options))}")


def compared(
    x_X: Array,
    seg_of_X: IntArray,
    *,
    where: BoolArray,
    scale: str = "none",
    ddof: int = 1,
    epsilon: float = 0.0,
    group_of_one: str = "zero",
    leave_one_out: bool = False,
) -> FloatArray:
    """`centre`, and what a group of one gets: 0, or with "raw" its value, over 1 + epsilon if scaled, as in verl."""
    out = centre(x_X, seg_of_X, scale=scale, ddof=ddof, epsilon=epsilon, where=where, leave_one_out=leave_one_out)
    if group_of_one == "raw" and len(out):
        alone = where & (seg_count(seg_of_X, where=where)[seg_of_X] == 1)
        out[alone] = np.asarray(x_X)[alone] / (1.0 + epsilon if scale == "std" else 1.0)
    return out


def added(parts: Sequence[FloatArray]) -> FloatArray:
    """The sum of parts, 0 where they cancel up to rounding."""
    total, size = np.sum(parts, axis=0), np.sum(np.abs(parts), axis=0)
    return np.where(np.abs(total) <= CANCELLED * size, 0.0, total)


def return_to_go(reward_S: FloatArray, run_of_S: IntArray, *, gamma: float) -> FloatArray:
    """`to_go` per run (trajectory), where rewards that cancel leave 0, not a rounding that a std would blow up."""
    return_S = to_go(reward_S, run_of_S, gamma=gamma)
    if not len(reward_S) or reward_S.min() >= 0:  # nothing that could cancel
        return return_S
    size_S = to_go(np.abs(reward_S), run_of_S, gamma=gamma)
    return np.where(np.abs(return_S) <= CANCELLED * size_S, 0.0, return_S)


def outcome_compared(
    units: Units,
    *,
    scale: str,
    ddof: int,
    epsilon: float,
    group_of_one: str = "zero",
    votes: str = "trajectory",
    late_S: FloatArray | None = None,
) -> FloatArray:
    """Each unit's trajectory against its group, (S,); with ``votes="row"`` a trajectory counts once per unit.

    ``late_S`` is added to the outcomes of rows.
    """
    how: dict[str, Any] = {"scale": scale, "ddof": ddof, "epsilon": epsilon, "group_of_one": group_of_one}
    if votes == "row":
        outcome_S = units.outcome_N[units.traj_of_S]
        return compared(
            outcome_S if late_S is None else outcome_S + late_S, units.group_of_S, where=units.valid_S, **how
        )
    return compared(units.outcome_N, units.group_of_N, where=units.valid_N, **how)[units.traj_of_S]


def whitened(
    x_S: FloatArray,
    weight_S: Array,
    *,
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
    floor: float = 0.0,
) -> tuple[FloatArray, float, float]:
    """Values with mean 0 and variance 1 over the batch, and the mean and divisor that did it.

        out[s] = (x[s] - mean) / sqrt(max(variance, floor) + epsilon)        weight[s] counts of each value

    A value without weight becomes 0; without spread all are 0.
    """
    weight = np.asarray(weight_S, dtype=np.float64)
    used, total = weight > 0, float(weight.sum())
    if total <= ddof:
        return np.zeros(len(x_S)), 0.0, 1.0
    if not used.all():
        x_S = np.where(used, x_S, 0.0)
    mean = float(weight @ x_S / total)
    moved = x_S - mean
    moved[~used] = 0.0
    variance = float(weight @ moved**2 / (total - ddof))
    if variance**0.5 <= SPREAD_TOLERANCE * max(float(x_S.max()), -float(x_S.min())):
        return np.zeros(len(x_S)), mean, 1.0
    std = (max(variance, floor) + epsilon) ** 0.5 if scale == "std" else 1.0
    moved /= std
    return moved, mean, std


def position_S(units: Units) -> IntArray:
    """Place of each unit in its trajectory, from 0 on."""
    index = np.arange(len(units), dtype=np.int64)
    first = np.append(True, units.traj_of_S[1:] != units.traj_of_S[:-1])[: len(index)]
    return index - np.maximum.accumulate(np.where(first, index, 0))
