"""Where a column of the rollouts has a gap: a column that one step lacks is no column, and that step is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apportion.data import Batch, Step
from apportion.data.check import where

FIELDS: dict[str, Callable[[Step], Any]] = {
    "value_S": lambda step: step.token_values if step.value is None else step.value,
    "logp_S": lambda step: step.logp,
    "ref_logp_S": lambda step: step.ref_logp,
    "entropy_S": lambda step: step.entropy,
}


def first_gap(batch: Batch, column: str) -> str:
    """The first step without this column as ``"; trajectory 2 ('a'), step 0 has none"``.

    Empty where every step lacks it, or where steps are not what it is read from.
    """
    kind, _, name = column.partition(":")
    told = (lambda step: step.columns.get(name)) if kind == "column" and name else FIELDS.get(column)
    if told is None:
        return ""
    gap, some = "", False
    for n, trajectory in enumerate(batch.trajectories):
        for s, step in enumerate(trajectory.steps):
            has = told(step) is not None
            some |= has
            sampled = len(step.ids) if step.ids is not None else step.action != ""  # an empty action needs no numbers
            if not (has or gap) and sampled:
                gap = f"; {where(n, trajectory)}, step {s} has none"
    return gap if some else ""
