"""Where two methods say opposite things of the same tokens."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from apportion.check.findings import Finding, Yields, places
from apportion.check.moves import step_name
from apportion.check.registry import register
from apportion.check.significance import rank_correlation
from apportion.credit import Credit
from apportion.numerics import FloatArray

OPPOSITE = 0.2
"""Share of the mass on which two methods pull in opposite directions, from which on it is a warning."""
RANKED = 100_000
"""Steps that the rank correlation looks at."""


@register("method-disagreement", on="credits")
def method_disagreement(credits: Mapping[str, Credit]) -> Yields:
    """How far two credits of the same rollouts agree: opposite signs by mass, rank correlation, and the steps in
    dispute.
    """
    for one, other in combinations(credits, 2):
        yield from _pair(one, credits[one], other, credits[other])


def _pair(one: str, a: Credit, other: str, b: Credit) -> Yields:
    batch = a.units.batch
    tokens = a.to_tokens(), b.to_tokens()
    both_T = (tokens[0].weight_T != 0) & (tokens[1].weight_T != 0)
    x_T, y_T = (_scaled(t.advantage_T, both_T) for t in tokens)
    if not both_T.any() or not x_T.any() or not y_T.any():
        return
    mass_T = np.minimum(np.abs(x_T), np.abs(y_T))
    opposed_T = x_T * y_T < 0
    total = float(np.maximum(np.abs(x_T), np.abs(y_T)).sum())
    opposite = float(mass_T[opposed_T].sum()) / total
    steps = len(batch.traj_of_S)
    size_S = np.maximum(np.bincount(batch.step_of_T[both_T], minlength=steps), 1)
    x_S, y_S = (np.bincount(batch.step_of_T, weights=v, minlength=steps) / size_S for v in (x_T, y_T))
    used = np.flatnonzero(np.bincount(batch.step_of_T[both_T], minlength=steps))[:RANKED]
    rank = rank_correlation(x_S[used], y_S[used])
    dispute_S = np.where(x_S * y_S < 0, np.minimum(np.abs(x_S), np.abs(y_S)), 0.0)
    order = np.argsort(-dispute_S, kind="stable")
    order = order[dispute_S[order] > 0]
    worst = (
        f"; most of all in {step_name(batch, int(order[0]))} ({x_S[order[0]]:+.2f} and {y_S[order[0]]:+.2f} standard "
        "deviations)"
        if len(order)
        else ""
    )
    strong = opposite >= OPPOSITE
    yield Finding(
        "method-disagreement",
        "warning" if strong else "info",
        f"{one} and {other} pull in opposite directions on {opposite:.0%} of the credit mass and in "
        f"{len(order)} of {len(used)} steps (rank correlation of the steps {rank:+.2f}){worst}",
        "read the steps in dispute; where a method has few comparisons there (`apportion check`), believe the other, "
        "or ask for continuations from that step (`vineppo`)",
        {
            "methods": [one, other],
            "share": opposite,
            "steps": len(order),
            "of": len(used),
            "rank_correlation": rank,
            "zero_in_one_only": float(np.mean((x_T[both_T] == 0) != (y_T[both_T] == 0))),
        },
        places(step_name(batch, int(s)) for s in order),
    )


def _scaled(x_T: FloatArray, where: np.ndarray) -> FloatArray:
    """In root mean squares of the shared tokens, so that the scale of a method does not matter."""
    size = float(np.sqrt(np.mean(x_T[where] ** 2))) if where.any() else 0.0
    return np.where(where, x_T / size, 0.0) if size > 0 else np.zeros_like(x_T)
