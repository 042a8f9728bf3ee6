"""Rollouts without a reward."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.data import Batch


@register("unscored", on="batch", cheap=True)
def unscored(batch: Batch) -> Yields:
    """Rollouts without a reward, and groups that lose members by it."""
    missing = np.flatnonzero(~batch.scored_N)
    if not len(missing):
        return
    names = batch.names()
    touched = len(np.unique(batch.group_of_N[missing]))
    all_of_them = len(missing) == len(batch)
    effect = "there is nothing to credit" if all_of_them else "they leave the group statistics and get no credit"
    yield Finding(
        "unscored",
        "error" if all_of_them else "warning",
        f"{len(missing)} of {count(len(batch), 'rollout')} in {count(touched, 'group')} have no reward "
        f"({named((names[n] for n in missing), len(missing))}); {effect}",
        "give Trajectory.outcome or a reward on the last step; None is right where scoring failed, 0 is not",
        {
            "rollouts": len(missing),
            "of": len(batch),
            "share": len(missing) / len(batch),
            "groups": touched,
        },
        places(names[n] for n in missing),
    )
