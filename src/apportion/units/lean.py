"""Units of a `LeanBatch`: the same cut, with the columns that were not read left unread."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from apportion.data import Batch
from apportion.data.lean import PER_TOKEN, LeanBatch, NotLean, UnreadNames, unread
from apportion.numerics import seg_mean, seg_sum
from apportion.units.cut import cut
from apportion.units.cuts import steps_in_units
from apportion.units.units import Units

LEVELS = ("episode", "turn", "step", "agent")
"""Cuts that are no finer than a step."""


def lean_units(batch: LeanBatch, level: str) -> Units:
    """Cut lean columns; each column that is there equals that of the ordinary cut, bit for bit.

    States are whole numbers, equal for equal texts. The batch is closed: its pseudo-tokens are nobody's tokens.

    Raises:
        NotLean: the level, or one of these rollouts, needs the ordinary way.
    """
    if level not in LEVELS:
        raise NotLean(f"units by {level}")
    if level == "turn" and not batch.turns_told:
        raise NotLean("turns that are counted by who speaks")
    as_batch = cast(Batch, batch)
    unit_of_step, first = steps_in_units(as_batch, level)
    spoken = batch.step_of_T
    unit_of_T = unit_of_step[spoken]
    units = cut(as_batch, level, unit_of_T, first, unit_of_step, has_states=False)
    size = len(units)
    columns: dict[str, Any] = {
        "unit_of_T": unread(len(spoken)),
        "state_S": unread(size) if batch.code_S is None else batch.code_S[first],
        "value_S": unread(size) if batch.value_told_S is None else batch.value_told_S[first],
        "tokens_S": unread(size),
        **dict.fromkeys(PER_TOKEN, unread(size)),
        **dict.fromkeys(("columns", "reward_parts", "outcome_parts"), UnreadNames()),
    }
    if not batch.turns_told:
        columns["turn_S"] = unread(size)
    if batch.size_S.dtype != object:
        tokens_X = batch.size_S[spoken]
        columns["tokens_S"] = seg_sum(tokens_X, unit_of_T, n=size).astype(np.int64)
        for name, values in batch.flat.items():
            total = seg_mean if name == "entropy_S" else seg_sum
            columns[name] = total(values, np.repeat(unit_of_T, tokens_X), n=size)
    for name, column in columns.items():
        if isinstance(column, np.ndarray):
            column.flags.writeable = False
        object.__setattr__(units, name, column)
    batch.close()
    return units
