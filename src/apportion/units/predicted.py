"""Units of rollouts that got more columns after they were cut: what a fitted model predicts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apportion.data import Batch
from apportion.errors import DataError
from apportion.numerics import IntArray, seg_mean, seg_sum
from apportion.units.cut import reward_part, unit_of_last_token, values_of
from apportion.units.cuts import steps_in_units
from apportion.units.units import Units

BY_STEPS = ("episode", "turn", "step", "agent")
"""Levels whose units are made of whole steps."""


def with_batch(units: Units, batch: Batch) -> Units:
    """The same units of the same rollouts after columns were predicted for them (values, log-probabilities, …).

    Args:
        units: any cut.
        batch: `units.batch` with other columns; texts, tokens, rewards and flags as they were.

    Raises:
        DataError: other rollouts.
    """
    before = units.batch
    if not (np.array_equal(before.ids_T, batch.ids_T) and np.array_equal(before.step_of_T, batch.step_of_T)):
        raise DataError("with_batch: these are other rollouts than the units are cut from; predict for units.batch")
    own, s_count = units.unit_of_T >= 0, len(units)
    unit_of_step = _unit_of_step(units)
    unit = units.unit_of_T[own]
    return replace(
        units,
        batch=batch,
        final_value_N=batch.final_value_N,
        value_S=values_of(batch, units.level, units.unit_of_T, units.step_of_S),
        logp_S=None if batch.logp_T is None else seg_sum(batch.logp_T[own], unit, n=s_count),
        ref_logp_S=None if batch.ref_logp_T is None else seg_sum(batch.ref_logp_T[own], unit, n=s_count),
        entropy_S=None if batch.entropy_T is None else seg_mean(batch.entropy_T[own], unit, n=s_count),
        columns={name: seg_sum(column_T[own], unit, n=s_count) for name, column_T in batch.columns_T.items()},
        reward_parts={name: reward_part(part_S, unit_of_step, s_count) for name, part_S in batch.reward_parts.items()},
    )


def _unit_of_step(units: Units) -> IntArray:
    """Unit that each step's reward arrives with, as the cut had it."""
    if units.level in BY_STEPS:
        return steps_in_units(units.batch, units.level)[0]
    return unit_of_last_token(units.batch, units.unit_of_T)
