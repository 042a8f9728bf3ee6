"""Actions that repeat themselves."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, places
from apportion.check.moves import step_name
from apportion.check.registry import register
from apportion.check.solved import solved
from apportion.check.texts import repetition_of
from apportion.data import Batch

HIGH = 0.2
"""Score of an action from which on it repeats itself: two verbatim copies are above, a paraphrase is hardly above 0."""
MANY = 0.05
"""Share of the rollouts from which on it is a warning. Single ones happen: a model that restates its answer."""
LEAST = 2


@register("repetition", on="batch", cheap=True)
def repeats(batch: Batch) -> Yields:
    """Rollouts with an action that repeats itself (longest common prefixes of its suffixes), as before a collapse."""
    chosen, score, step = repetition_of(batch)
    high = np.flatnonzero(score > HIGH)
    if len(high) < LEAST:
        return
    share = len(high) / len(chosen)
    worst = high[np.argsort(-score[high], kind="stable")]
    won_N = solved(batch)
    among = None if won_N is None else int(np.count_nonzero(won_N[chosen[high]]))
    yield Finding(
        "repetition",
        "warning" if share >= MANY else "info",
        f"{len(high)} of {count(len(chosen), 'rollout')} ({share:.0%}) have an action with a repetition score above "
        f"{HIGH:g} (worst: {step_name(batch, int(step[worst[0]]))}, {score[worst[0]]:.2f}; mean of all "
        f"{score.mean():.3f})",
        "read the worst one; a loop needs a stop condition or a penalty, and a rising share over training is a "
        "collapse coming (stop, go back, lower the learning rate or the process reward)",
        {
            "rollouts": len(high),
            "of": len(chosen),
            "share": share,
            "threshold": HIGH,
            "worst": float(score[worst[0]]),
            "mean": float(score.mean()),
            "solved": among,
        },
        places(step_name(batch, int(step[k])) for k in worst),
    )
