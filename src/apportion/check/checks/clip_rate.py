"""How many rollouts a limit cut off."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.check.solved import solved
from apportion.check.texts import sampled_sizes
from apportion.data import Batch

MANY = 0.2
"""Share of the rollouts from which on it is a warning."""
LEAST = 2


@register("clip-rate", on="batch", cheap=True)
def clip_rate(batch: Batch) -> Yields:
    """Many rollouts that a limit cut off: lengths grow, or the limit is too small for the task."""
    cut = np.flatnonzero(batch.truncated_N)
    share = len(cut) / len(batch)
    if len(cut) < LEAST or share < MANY:
        return
    names = batch.names()
    won_N = solved(batch)
    among = None if won_N is None else int(np.count_nonzero(won_N[cut]))
    tokens_N = sampled_sizes(batch)
    rest = tokens_N[~batch.truncated_N]
    yield Finding(
        "clip-rate",
        "warning",
        f"{len(cut)} of {count(len(batch), 'rollout')} ({share:.0%}) were cut off by a limit "
        f"({named((names[n] for n in cut), len(cut))})"
        + (f", {among} of them solved" if among else "")
        + ": their outcome is that of the limit, not of the decisions",
        "raise the limit, keep them out of the loss (`drop_truncated`), or see whether the policy is learning to go on "
        "for ever (`repetition`, `thinking-unsolved`)",
        {
            "rollouts": len(cut),
            "of": len(batch),
            "share": share,
            "solved": among,
            "mean_tokens": float(tokens_N[cut].mean()),
            "mean_tokens_of_the_rest": float(rest.mean()) if len(rest) else None,
        },
        places(names[n] for n in cut),
    )
