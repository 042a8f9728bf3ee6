"""Process rewards and verdicts: what was said of single steps, apart from what was said of the whole rollout."""

from __future__ import annotations

import numpy as np

from apportion.errors import DataError
from apportion.numerics import BoolArray, FloatArray, IntArray, seg_count, seg_sum
from apportion.units.cut import unit_of_last_token
from apportion.units.units import Units

INSIDE = ("segment", "token")
"""Levels whose units lie inside steps."""
ROUNDING = 1e-9
"""Share of a reward by which two ways of adding it up may differ."""


def process_rewards(units: Units, name: str = "") -> FloatArray:
    """The reward of each unit as its steps were told it, NaN where none of them was.

    Unlike ``reward_S``, nothing stands in for a missing reward, and what an outcome has beyond the rewards of the steps
    is in none of them.

    Args:
        units: any units.
        name: a named part (`Step.rewards`); default the rewards themselves. Rewards that were put in with
            `Units.with_reward` count as told everywhere. Segments and tokens take the column of that name
            (`Step.columns`) where there is one, and of it the number at their last token.

    Raises:
        DataError: no step has a part of that name.
    """
    if name:
        if units.level in INSIDE and name in units.batch.columns_T:
            return _at_last_token(units, units.batch.columns_T[name])
        if name not in units.reward_parts:
            raise DataError(f"no step has a reward part named {name!r}; give Step.rewards[{name!r}] where there is one")
        return units.reward_parts[name]
    batch = units.batch
    unit = _unit_of_step(units)
    told = batch.scored_S & (unit >= 0)
    reward_S = seg_sum(batch.reward_S[told], unit[told], n=len(units))
    rest_S = units.reward_S - reward_S
    last_S = units.last_S & ~batch.scored_S[_last_step(units)]
    found_S = np.where(seg_count(unit[told], n=len(units)) > 0, reward_S, np.nan)
    # a rest before the end of a trajectory, beyond rounding: these are no longer the rewards of the batch
    moved_S = ~last_S & (np.abs(rest_S) > ROUNDING * np.maximum(1.0, np.abs(units.reward_S)))
    moved_N = seg_count(units.traj_of_S, where=moved_S, n=len(units.group_of_N)) > 0
    return np.where(moved_N[units.traj_of_S], units.reward_S, found_S)


def has_process_rewards(units: Units, name: str) -> bool:
    """Whether `process_rewards` finds that part."""
    return name in units.reward_parts or (units.level in INSIDE and name in units.batch.columns_T)


def verdicts(units: Units) -> BoolArray:
    """Trajectories whose outcome was given for itself, rather than added up from rewards, (N,)."""
    given = [t.outcome for t in units.batch.trajectories]
    told = np.array([x is not None for x in given], dtype=bool)
    value = np.array([0.0 if x is None else x for x in given])
    same: BoolArray = told & (units.outcome_N == value)
    return same & units.valid_N


def _at_last_token(units: Units, column_T: FloatArray) -> FloatArray:
    own = np.flatnonzero(units.unit_of_T >= 0)
    out = np.full(len(units), np.nan)
    out[units.unit_of_T[own]] = column_T[own]  # later tokens overwrite earlier ones: the last one stays
    return out


def _unit_of_step(units: Units) -> IntArray:
    """The unit that each step's reward arrived with, -1 where there is none."""
    steps = np.arange(len(units.batch.traj_of_S))
    if units.level in ("episode", "turn", "step"):  # whole steps, empty actions among them
        return np.searchsorted(units.step_of_S, steps, side="right") - 1
    return unit_of_last_token(units.batch, units.unit_of_T)


def _last_step(units: Units) -> IntArray:
    """Last step of each unit's trajectory."""
    batch = units.batch
    return np.searchsorted(batch.traj_of_S, units.traj_of_S, side="right") - 1
