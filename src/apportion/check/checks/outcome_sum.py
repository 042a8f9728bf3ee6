"""Outcomes that are not what the step rewards add up to."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.data import Batch
from apportion.numerics import seg_count, seg_sum

TOLERANCE = 1e-6
"""Relative to the larger of the two and 1, because logs round."""


@register("outcome-sum", on="batch", cheap=True)
def outcome_sum(batch: Batch) -> Yields:
    """Outcomes that differ from the sum of the step rewards; says when the outcome was copied onto every step.

    Where the last step has no reward, what the outcome has beyond the others arrives there, and nothing differs.
    """
    n = len(batch)
    given_N = np.array([trajectory.outcome is not None for trajectory in batch], dtype=bool)
    scored_N = seg_count(batch.traj_of_S, where=batch.scored_S, n=n)
    sum_N = seg_sum(batch.reward_S, batch.traj_of_S, where=batch.scored_S, n=n)
    both_N = given_N & (scored_N > 0)
    gap_N = np.abs(batch.outcome_N - sum_N)
    size_N = np.maximum(1.0, np.maximum(np.abs(batch.outcome_N), np.abs(sum_N)))
    unlike = batch.scored_S & (batch.reward_S != batch.outcome_N[batch.traj_of_S])
    unlike_N = seg_count(batch.traj_of_S, where=unlike, n=n)
    copied_N = (unlike_N == 0) & (scored_N > 1) & (batch.outcome_N != 0) & both_N
    last_N = np.flatnonzero(np.append(batch.traj_of_S[1:] != batch.traj_of_S[:-1], True))
    wrong = np.flatnonzero(both_N & (gap_N > TOLERANCE * size_N) & (copied_N | batch.scored_S[last_N]))
    if not len(wrong):
        return
    copied = int(np.count_nonzero(copied_N))
    worst = int(wrong[np.argmax(gap_N[wrong])])
    names = batch.names()
    both = int(np.count_nonzero(both_N))
    copy = f"; in {copied} of them every step repeats the outcome, which is then counted per step" if copied else ""
    yield Finding(
        "outcome-sum",
        "warning",
        f"{len(wrong)} of {count(both, 'rollout')} with both have an outcome unlike the sum of their step rewards "
        f"({named((names[i] for i in wrong), len(wrong))}; {names[worst]!r}: outcome {batch.outcome_N[worst]:g}, "
        f"sum {sum_N[worst]:g}){copy}",
        "leave out the step rewards where they repeat the outcome; give increments, not running totals; "
        "or drop the outcome where the sum is the truth",
        {
            "rollouts": len(wrong),
            "of": both,
            "share": len(wrong) / both,
            "copied": copied,
            "largest_gap": float(gap_N[worst]),
            "outcome": float(batch.outcome_N[worst]),
            "sum": float(sum_N[worst]),
        },
        places(names[i] for i in wrong),
    )
