"""Rollouts that have nobody to be compared with."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.data import Batch
from apportion.numerics import seg_count


@register("group-of-one", on="batch", cheap=True)
def group_of_one(batch: Batch) -> Yields:
    """Groups with a single rollout that counts, which every group method credits with 0."""
    groups = len(batch.group_names)
    size_G = seg_count(batch.group_of_N, n=groups)
    usable_G = seg_count(batch.group_of_N, where=batch.valid_N, n=groups)
    alone = np.flatnonzero(usable_G == 1)
    if not len(alone):
        return
    usable = int(np.count_nonzero(usable_G))
    shrunk = int(np.count_nonzero(size_G[alone] > 1))
    unnamed = sum(batch.trajectories[n].group is None for n in np.flatnonzero(usable_G[batch.group_of_N] == 1))
    everyone = len(alone) == usable
    why = "no comparable siblings at all" if everyone else "nobody to compare with"
    lost = f", {shrunk} of them because other members are unscored, empty or failed" if shrunk else ""
    yield Finding(
        "group-of-one",
        "error" if everyone else "warning",
        f"{len(alone)} of {count(usable, 'group')} have one rollout that counts{lost} "
        f"({named((batch.group_names[g] for g in alone), len(alone))}): {why}, so group methods give 0",
        "give equal Trajectory.group to rollouts of one task and start state (a fresh id per rollout is the usual "
        "mistake), sample more per task, or use a method with a value or a running baseline",
        {
            "groups": len(alone),
            "of": usable,
            "share": len(alone) / usable,
            "shrunk": shrunk,
            "without_group": int(unnamed),
        },
        places(batch.group_names[g] for g in alone),
    )
