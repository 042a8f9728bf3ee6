"""Rollouts that the verifier calls right and that are degenerate."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.check.solved import solved
from apportion.check.texts import repetition_of
from apportion.data import Batch

HIGH = 0.2
"""Repetition score above which a solved rollout counts as degenerate."""
MANY = 0.05
"""Share of the solved rollouts from which on it is a warning."""
LEAST = 2


@register("pseudo-positive", on="batch", cheap=True)
def pseudo_positive(batch: Batch) -> Yields:
    """Solved rollouts whose text repeats itself or was cut off: verified, and nothing one wants more of."""
    won_N = solved(batch)
    if won_N is None or not won_N.any():
        return
    chosen, score, _ = repetition_of(batch)
    score_N = np.zeros(len(batch))
    score_N[chosen] = score
    looping_N = won_N & (score_N > HIGH)
    bad = np.flatnonzero(looping_N)
    won = int(np.count_nonzero(won_N[chosen]))
    if len(bad) < LEAST or not won:
        return
    share = len(bad) / won
    lost_N = batch.valid_N & ~won_N
    other = int(np.count_nonzero(lost_N & (score_N > HIGH)))
    cut = int(np.count_nonzero(won_N & batch.truncated_N))
    names = batch.names()
    worst = int(bad[np.argmax(score_N[bad])])
    yield Finding(
        "pseudo-positive",
        "warning" if share >= MANY else "info",
        f"{len(bad)} of {count(won, 'solved rollout')} repeat themselves "
        f"({named((names[n] for n in bad), len(bad))}; {names[worst]!r}: score {score_N[worst]:.2f}; {other} of the "
        "failed ones do): they are rewarded, so the loops will grow",
        "take their reward away or drop them, and look before the next update: PURE's run collapsed within an "
        "iteration of the first such samples",
        {
            "rollouts": len(bad),
            "of": won,
            "share": share,
            "failed_repetitive": other,
            "solved_truncated": cut,
            "worst": float(score_N[worst]),
            "threshold": HIGH,
        },
        places(names[n] for n in bad),
    )
