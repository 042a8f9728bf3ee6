"""Groups whose members all ended alike."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.data import Batch
from apportion.numerics import seg_count, seg_std

MANY = 0.5
"""Share of the groups from which on it is a warning."""


@register("constant-group", on="batch", cheap=True)
def constant_group(batch: Batch) -> Yields:
    """Groups of several rollouts with equal outcomes, from which group methods learn nothing."""
    groups = len(batch.group_names)
    size_G = seg_count(batch.group_of_N, where=batch.valid_N, n=groups)
    std_G = seg_std(batch.outcome_N, batch.group_of_N, where=batch.valid_N, n=groups)
    comparable = int(np.count_nonzero(size_G > 1))
    constant = np.flatnonzero((size_G > 1) & (std_G == 0))
    if not len(constant):
        return
    share = len(constant) / comparable
    first_G = np.zeros(groups)
    valid = np.flatnonzero(batch.valid_N)
    first_G[batch.group_of_N[valid]] = batch.outcome_N[valid]
    low, high = float(batch.outcome_N[valid].min()), float(batch.outcome_N[valid].max())
    at_low = int(np.count_nonzero(first_G[constant] == low)) if high > low else 0
    at_high = int(np.count_nonzero(first_G[constant] == high)) if high > low else 0
    ends = f" ({at_low} at the lowest outcome of all, {at_high} at the highest)" if high > low else ""
    yield Finding(
        "constant-group",
        "error" if share == 1 else "warning" if share >= MANY else "info",
        f"{len(constant)} of {count(comparable, 'group')} with several rollouts are constant{ends}: "
        f"{named((batch.group_names[g] for g in constant), len(constant))}; group methods give exactly 0 there",
        "choose tasks that the policy sometimes solves, sample more per task, or add step rewards; "
        "zeros stay in the loss denominator",
        {
            "groups": len(constant),
            "of": comparable,
            "share": share,
            "at_lowest_outcome": at_low,
            "at_highest_outcome": at_high,
        },
        places(batch.group_names[g] for g in constant),
    )
