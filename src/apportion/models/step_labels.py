"""Labels of single steps, from wherever they come: the rollouts themselves, numbers, or a credit.

""                    the steps' rewards (`Step.reward`)
"rating", …           a named part of them (`Step.rewards`): PRM800K's ratings, scores of a judge
"mc.parquet", Credit  credit of steps, such as `agentprm_mc` with credit="promise" gives it
(S,) numbers          one for each step, NaN = not labelled
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from apportion.credit import Credit, read_credit
from apportion.data import Batch
from apportion.errors import DataError
from apportion.numerics import Array, FloatArray

SUFFIXES = (".jsonl", ".parquet")
"""Ends of the names of credit files."""


def labels_of(batch: Batch, labels: str | Path | Credit | Array | Any, *, who: str) -> FloatArray:
    """One label for each step of a batch, (S,); NaN where it has none.

    Args:
        batch: the rollouts. labels: see the module. who: is named in errors.

    Raises:
        DataError: no such part, a credit of other rollouts or other units, or not one number for each step.
    """
    if isinstance(labels, Path) or (isinstance(labels, str) and labels.endswith(SUFFIXES)):
        return _of_credit(batch, read_credit(labels), f"{who}: labels={str(labels)!r}")
    if isinstance(labels, Credit):
        return _of_credit(batch, labels, f"{who}: labels")
    if isinstance(labels, str):
        return _of_rewards(batch, labels, who)
    given = np.asarray(labels, dtype=np.float64)
    if given.shape != batch.traj_of_S.shape:
        raise DataError(
            f"{who}: {given.size} labels for {len(batch.traj_of_S)} steps; give one for each step, NaN for none"
        )
    return given


def _of_rewards(batch: Batch, part: str, who: str) -> FloatArray:
    if not part:
        return np.where(batch.scored_S, batch.reward_S, np.nan)
    if part not in batch.reward_parts:
        there = ", ".join(map(repr, batch.reward_parts)) or "none"
        raise DataError(
            f"{who}: no step has a reward part named {part!r} (there are: {there}); give labels the name of a part, a "
            "file of credit, or nothing to take the steps' rewards"
        )
    return np.asarray(batch.reward_parts[part], dtype=np.float64)


def _of_credit(batch: Batch, credit: Credit, at: str) -> FloatArray:
    units = credit.units
    if not np.array_equal(units.step_of_S, np.arange(len(batch.traj_of_S))):
        raise DataError(
            f"{at} is credit of {len(units)} units ({units.level}) and the rollouts have {len(batch.traj_of_S)} steps; "
            "credit them by step"
        )
    if units.batch.names() != batch.names() or _actions(units.batch) != _actions(batch):
        raise DataError(f"{at} is credit of other rollouts; make it from these")
    assert credit.known_S is not None  # filled in when it is made
    return np.where(credit.known_S, credit.advantage_S, np.nan)


def _actions(batch: Batch) -> list[Any]:
    """What was done at each step."""
    steps = (step for rollout in batch.trajectories for step in rollout.steps)
    return [step.action if step.ids is None else tuple(np.asarray(step.ids).tolist()) for step in steps]
