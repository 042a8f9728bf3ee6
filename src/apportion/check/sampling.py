"""A part of a large batch, for checks whose cost grows with the texts."""

from __future__ import annotations

import numpy as np

from apportion.data import Batch
from apportion.data.batch import from_checked

STEPS = 20_000
"""Steps that the checks of texts look at, in whole groups spread evenly over the batch."""


def some_groups(batch: Batch, steps: int = STEPS) -> Batch:
    """Whole groups with about so many steps, or the batch itself where it is not larger."""
    if len(batch.traj_of_S) <= steps:
        return batch
    groups = len(batch.group_names)
    wanted = max(1, groups * steps // len(batch.traj_of_S))
    chosen = np.unique(np.linspace(0, groups - 1, wanted).astype(np.int64))
    keep_N = np.isin(batch.group_of_N, chosen)
    return from_checked(t for t, keep in zip(batch.trajectories, keep_N.tolist(), strict=True) if keep)


def evenly(size: int, most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """At most so many of ``size`` positions, spread evenly."""
    if size <= most:
        return np.arange(size, dtype=np.int64)
    return np.unique(np.linspace(0, size - 1, most).astype(np.int64))
