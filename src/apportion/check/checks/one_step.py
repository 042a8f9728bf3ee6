"""Rollouts that are one long step where others take several."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.moves import steps_of
from apportion.check.registry import register
from apportion.check.solved import solved
from apportion.check.texts import sampled_sizes
from apportion.data import Batch
from apportion.numerics import IntArray

USUAL = 3
"""Median number of steps from which on one step is unusual."""
SIZE = 0.7
"""Share of the median of tokens that the one step must have: the same work in one piece."""
MANY = 0.1
LEAST = 2


@register("one-step", on="batch", cheap=True)
def one_step(batch: Batch) -> Yields:
    """Rollouts that put everything into one step (of an agent) or one paragraph (of a text), as others do in
    several.
    """
    steps_N = np.bincount(batch.traj_of_S, minlength=len(batch))
    kind = "step"
    if np.median(steps_N) < USUAL:
        if not bool((steps_N == 1).all()):
            return
        steps_N, kind = _paragraphs(batch), "paragraph"
        if np.median(steps_N) < USUAL:
            return
    tokens_N = sampled_sizes(batch)
    median = float(np.median(tokens_N[steps_N > 1]))
    one = np.flatnonzero((steps_N == 1) & (tokens_N >= SIZE * median) & batch.has_tokens_N)
    share = len(one) / len(batch)
    if len(one) < LEAST or share < MANY:
        return
    names = batch.names()
    won_N = solved(batch)
    paid = 0 if won_N is None else int(np.count_nonzero(won_N[one]))
    yield Finding(
        "one-step",
        "warning",
        f"{len(one)} of {count(len(batch), 'rollout')} are one {kind} of {tokens_N[one].mean():.0f} tokens on "
        f"average, where the median has {np.median(steps_N):.0f} {kind}s and {median:.0f} tokens "
        f"({named((names[n] for n in one), len(one))}; {paid} solved): rewards per {kind} are dodged, or a separator "
        "is gone",
        f"look whether the mark between {kind}s is still found (a tokenizer may merge it); with rewards per step use a "
        "baseline per token, not per step",
        {
            "rollouts": len(one),
            "of": len(batch),
            "share": share,
            "solved": paid,
            "median_steps": float(np.median(steps_N)),
            "median_tokens": median,
            "counted": kind,
        },
        places(names[n] for n in one),
    )


def _paragraphs(batch: Batch) -> IntArray:
    """Paragraphs of each rollout's only action; 0 where there is no text."""
    return np.array(
        [sum(bool(part.strip()) for part in (step.action or "").split("\n\n")) for step in steps_of(batch)],
        dtype=np.int64,
    )
