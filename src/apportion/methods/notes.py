"""Counts that every reader of a group comparison should see: who had nobody to be compared with, and how many had."""

from __future__ import annotations

import numpy as np

from apportion.numerics import IntArray, seg_count, seg_std
from apportion.units import Units


def group_notes(units: Units) -> dict[str, int]:
    """Groups of one, groups without spread, and trajectories outside the statistics; only what is not zero.

    A group counts as constant by its own spread, whatever scaling a method uses.
    """
    n = int(units.group_of_N.max()) + 1 if len(units.group_of_N) else 0
    size_G = seg_count(units.group_of_N, where=units.valid_N, n=n)
    std_G = seg_std(units.outcome_N, units.group_of_N, where=units.valid_N, n=n)
    counts = {
        "groups": n,
        "groups_of_one": int(np.count_nonzero(size_G == 1)),
        "constant_groups": int(np.count_nonzero((size_G > 1) & (std_G == 0))),
        "unknown_trajectories": int(np.count_nonzero(~units.valid_N)),
    }
    return {name: count for name, count in counts.items() if count}


def size_histogram(size_X: IntArray) -> str:
    """How many sets there are of each size, as one short text: ``"1:40 2:12 3-4:9 5-8:3"``; empty sets are left out."""
    size = size_X[size_X > 0]
    bins = np.bincount(np.ceil(np.log2(size)).astype(np.int64)) if len(size) else np.zeros(0, dtype=np.int64)
    names = ["1", "2", *(f"{2 ** (k - 1) + 1}-{2**k}" for k in range(2, len(bins)))]
    return " ".join(f"{name}:{count}" for name, count in zip(names, bins.tolist(), strict=False) if count)
