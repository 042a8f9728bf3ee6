"""Counts that every reader of a group comparison should see: who had nobody to be compared with."""

from __future__ import annotations

import numpy as np

from apportion.numerics import seg_count, seg_std
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
