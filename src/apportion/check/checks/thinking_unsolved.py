"""Rollouts that think and never answer."""

from __future__ import annotations

import re

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.check.solved import solved
from apportion.check.texts import answers, sampled_sizes
from apportion.data import Batch

OPEN = re.compile(r"(?i)<(think|thinking|thought|reasoning|scratchpad)>")
CLOSE = re.compile(r"(?i)</(think|thinking|thought|reasoning|scratchpad)>")
MANY = 0.1
"""Share of the rollouts that think from which on it is a warning."""
LEAST = 2


@register("thinking-unsolved", on="batch", cheap=True)
def thinking_unsolved(batch: Batch) -> Yields:
    """Last actions that open a thought and end in it, or have nothing behind it: thinking without solving."""
    texts = answers(batch)
    state = np.array([_thought(text) for text in texts])
    bad = np.flatnonzero(state == 1)
    thinking = int(np.count_nonzero(state >= 0))
    if len(bad) < LEAST or len(bad) < MANY * thinking:
        return
    won_N = solved(batch)
    paid = 0 if won_N is None else int(np.count_nonzero(won_N[bad]))
    tokens_N = sampled_sizes(batch)
    names = batch.names()
    others = tokens_N[state == 0]
    cut = int(np.count_nonzero(batch.truncated_N[bad]))
    yield Finding(
        "thinking-unsolved",
        "warning",
        f"{len(bad)} of {count(thinking, 'rollout')} that think have no answer behind the thought "
        f"({named((names[n] for n in bad), len(bad))}; {cut} cut off, {paid} rewarded; on average "
        f"{tokens_N[bad].mean():.0f} tokens, the others {others.mean() if len(others) else 0:.0f})",
        "reward answers and not thoughts: a sum of process rewards pays for every further thought (use the minimum "
        "form, `pure`); give thoughts a budget",
        {
            "rollouts": len(bad),
            "of": thinking,
            "share": len(bad) / max(1, thinking),
            "truncated": cut,
            "rewarded": paid,
            "mean_tokens": float(tokens_N[bad].mean()),
            "mean_tokens_of_the_rest": float(others.mean()) if len(others) else None,
        },
        places(names[n] for n in bad),
    )


def _thought(text: str | None) -> int:
    """-1: no thought is marked; 0: something follows the last one; 1: nothing does."""
    if not text:
        return -1
    opened = [hit.start() for hit in OPEN.finditer(text)]
    closed = [hit.end() for hit in CLOSE.finditer(text)]
    if not opened and not closed:
        return -1
    if opened and (not closed or closed[-1] < opened[-1]):
        return 1
    return 0 if text[closed[-1] :].strip() else 1
