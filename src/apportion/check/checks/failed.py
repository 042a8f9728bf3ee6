"""Rollouts that broken infrastructure ended."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.data import Batch

MANY = 0.2
"""Share of the rollouts from which on it is a warning."""


@register("failed", on="batch", cheap=True)
def failed(batch: Batch) -> Yields:
    """Rollouts marked as failed (sandbox, tool server), which leave the statistics."""
    broken = np.flatnonzero(batch.failed_N)
    if not len(broken):
        return
    names = batch.names()
    share = len(broken) / len(batch)
    yield Finding(
        "failed",
        "warning" if share >= MANY else "info",
        f"{len(broken)} of {count(len(batch), 'rollout')} have a failed step "
        f"({named((names[n] for n in broken), len(broken))}): they say nothing about the policy and get no credit",
        "repair the environment or the scorer and sample them again",
        {"rollouts": len(broken), "of": len(batch), "share": share},
        places(names[n] for n in broken),
    )
