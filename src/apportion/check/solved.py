"""Which rollouts count as solved, where nobody says so."""

from __future__ import annotations

from apportion.data import Batch
from apportion.numerics import BoolArray


def solved(batch: Batch) -> BoolArray | None:
    """Rollouts whose outcome is at least halfway between the lowest and the highest of the batch.

    None where outcomes do not differ: then nothing says which end they are at.
    """
    outcome = batch.outcome_N[batch.valid_N]
    if not len(outcome) or float(outcome.max()) <= float(outcome.min()):
        return None
    middle = (float(outcome.max()) + float(outcome.min())) / 2
    return batch.valid_N & (batch.outcome_N >= middle)
