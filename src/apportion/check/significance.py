"""p-values by permutation, and which of many to believe."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from apportion.numerics import Array, BoolArray, FloatArray

ENOUGH = 10
"""A test stops once so many permutations did as well as the data (Besag and Clifford 1991)."""


def permutation_p(
    observed: float,
    draw: Callable[[int], FloatArray],
    *,
    most: int = 5000,
    at_once: int = 200,
) -> float:
    """p-value of a statistic of which ``draw(n)`` gives n values under the hypothesis that nothing is there.

    Sequential: it goes on to ``most`` draws only while few reach the observed value, so that the many tests in which
    there is nothing are cheap. The p-values are valid all the same (Besag and Clifford 1991): h / l where the h-th
    success comes at draw l, else (successes + 1) / (draws + 1).
    """
    done = reached = 0
    while done < most:
        hits = np.flatnonzero(draw(at_once) >= observed - 1e-9 * max(1.0, abs(observed)))
        if reached + len(hits) >= ENOUGH:
            return ENOUGH / (done + int(hits[ENOUGH - reached - 1]) + 1)
        reached += len(hits)
        done += at_once
    return (reached + 1) / (done + 1)


def within(stratum: Array, draws: int, rng: np.random.Generator) -> Array:
    """(draws, n) rearrangements of n positions that stay inside their stratum."""
    order = np.argsort(stratum, kind="stable")
    keys = rng.random((draws, len(stratum))) + stratum[order]
    shuffled = order[np.argsort(keys, axis=1)]
    out = np.empty_like(shuffled)
    out[:, order] = shuffled
    return out


def benjamini_hochberg(p: Sequence[float], q: float) -> BoolArray:
    """Which hypotheses to reject so that at most the share q of the rejected ones is true, on average.

    Holds for independent p-values and for positively dependent ones (Benjamini and Hochberg 1995, Benjamini and
    Yekutieli 2001).
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    below = np.flatnonzero(values[order] <= q * np.arange(1, len(values) + 1) / max(len(values), 1))
    out = np.zeros(len(values), dtype=bool)
    if len(below):
        out[order[: below[-1] + 1]] = True
    return out


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's: the correlation of the ranks, ties at their mean; 0 where one of them is constant."""
    x, y = ranks(a), ranks(b)
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else 0.0


def ranks(values: Array) -> FloatArray:
    """Ranks from 1, ties at their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    middle: FloatArray = ends - (counts - 1) / 2
    return middle[inverse.reshape(-1)]
