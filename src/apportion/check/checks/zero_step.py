"""Answers of next to no tokens."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.moves import short
from apportion.check.registry import register
from apportion.check.solved import solved
from apportion.check.texts import answers, sampled_sizes
from apportion.data import Batch
from apportion.numerics import seg_quantile

TINY, PART = 8, 0.1
"""An answer is next to nothing with at most 8 sampled tokens and a tenth of its group's median."""
MANY = 0.05
LEAST = 2


@register("zero-step", on="batch", cheap=True)
def zero_step(batch: Batch) -> Yields:
    """Rollouts of a few tokens ("Thank you.") among long ones: what a process reward pays for doing nothing."""
    tokens_N = sampled_sizes(batch)
    used = tokens_N[batch.has_tokens_N]
    if not len(used):
        return
    median = float(np.median(used))
    usual_N = seg_quantile(tokens_N, batch.group_of_N, 0.5)[batch.group_of_N]
    alone_N = np.bincount(batch.group_of_N)[batch.group_of_N] == 1
    usual_N = np.where(alone_N, median, usual_N)  # tasks differ in how much there is to say
    tiny = np.flatnonzero((tokens_N <= TINY) & (tokens_N <= PART * usual_N) & batch.has_tokens_N)
    share = len(tiny) / len(batch)
    if len(tiny) < LEAST or share < MANY:
        return
    names, texts = batch.names(), answers(batch)
    won_N = solved(batch)
    paid = 0 if won_N is None else int(np.count_nonzero(won_N[tiny]))
    scored = tiny[batch.scored_N[tiny]]
    other = np.flatnonzero(batch.valid_N & ~np.isin(np.arange(len(batch)), tiny))
    gain = None
    if len(scored) and len(other):
        gain = float(batch.outcome_N[scored].mean() - batch.outcome_N[other].mean())
    n = int(tiny[0])
    said = f", like {short(texts[n])!r}" if texts[n] else ""
    yield Finding(
        "zero-step",
        "warning" if paid or (gain is not None and gain >= 0) else "info",
        f"{len(tiny)} of {count(len(batch), 'rollout')} have at most {TINY} sampled tokens, the median has "
        f"{median:.0f}{said} ({named((names[k] for k in tiny), len(tiny))}; {paid} solved"
        + ("" if gain is None else f", {gain:+.2g} outcome against the others")
        + ")",
        "where they are paid, mix in tasks with a verifiable reward: a process reward alone cannot see that nothing "
        "follows",
        {
            "rollouts": len(tiny),
            "of": len(batch),
            "share": share,
            "solved": paid,
            "gain": gain,
            "median_tokens": median,
        },
        places(names[k] for k in tiny),
    )
