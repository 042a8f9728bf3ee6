"""Bias, variance and signal-to-noise from independent seeds, each with a jackknife interval over them.

A *place* is a time, a true state and an action: there the advantage A is one number, and the credit c varies from
batch to batch. With d[b,k] the sum of c - A over the visits of seed b to place k, n[b,k] their number:

    bias^2   = sum_k w_k * sum_{b != b'} d[b,k] d[b',k] / sum_{b != b'} n[b,k] n[b',k]      w_k = share of visits
    error^2  = mean of (c - A)^2                 variance = error^2 - bias^2

Products of different seeds have no noise in common, so this bias is itself unbiased, and can come out below 0. The
same form gives the signal of the gradient: |E g|^2 = mean over b != b' of g[b] . g[b'].
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from apportion.numerics import FloatArray

Interval = tuple[float, float, float]


def jackknife(seeds: int, of: Callable[[FloatArray], float]) -> Interval:
    """A statistic of all seeds, and its 95% interval from leaving out one seed at a time.

    Args:
        of: takes a weight per seed, 1 or 0.
    """
    value = of(np.ones(seeds))
    if seeds < 3 or not np.isfinite(value):
        return value, float("nan"), float("nan")
    without = np.array([of(1.0 - np.eye(seeds)[b]) for b in range(seeds)])
    error = float(np.sqrt((seeds - 1) / seeds * np.sum((without - without.mean()) ** 2)))
    return value, value - 1.96 * error, value + 1.96 * error


def crossed(sum_BK: FloatArray, keep_B: FloatArray) -> FloatArray:
    """Sum over pairs of different seeds of the products of their sums, for each place."""
    kept = sum_BK * keep_B[:, None]
    return np.asarray(kept.sum(axis=0) ** 2 - (kept**2).sum(axis=0), dtype=np.float64)


def squared_bias(gap_BK: FloatArray, visits_BK: FloatArray, keep_B: FloatArray) -> tuple[float, float]:
    """Mean squared bias over the visits, and the share of visits that it could be told for (two seeds were there)."""
    pairs_K = crossed(visits_BK, keep_B)
    seen = pairs_K > 0
    weight_K = (visits_BK * keep_B[:, None]).sum(axis=0)
    if not seen.any():
        return float("nan"), 0.0
    bias_K = crossed(gap_BK, keep_B)[seen] / pairs_K[seen]
    return float(np.average(bias_K, weights=weight_K[seen])), float(weight_K[seen].sum() / weight_K.sum())


def best_factor(credit_BK: FloatArray, right_BK: FloatArray, visits_BK: FloatArray, keep_B: FloatArray) -> float:
    """The factor that brings the mean credit of the places closest to the advantage; NaN where there is no mean credit.

    sum_k w_k A_k m_k / sum_k w_k m_k^2        m_k = mean credit at the place, its square from different seeds
    """
    pairs_K = crossed(visits_BK, keep_B)
    seen = pairs_K > 0
    visits_K, credit_K, right_K = ((x_BK * keep_B[:, None]).sum(axis=0) for x_BK in (visits_BK, credit_BK, right_BK))
    square = float(visits_K[seen] @ (crossed(credit_BK, keep_B)[seen] / pairs_K[seen]))
    both = float(right_K[seen] @ (credit_K[seen] / visits_K[seen]))
    return both / square if square > 0 else float("nan")


def signal_to_noise(gradient_BP: FloatArray, keep_B: FloatArray) -> float:
    """|E g|^2 / E|g - E g|^2 of one batch's gradient; NaN without noise or with fewer than two seeds."""
    n = float(keep_B.sum())
    if n < 2:
        return float("nan")
    signal = float(crossed(gradient_BP, keep_B).sum()) / (n * (n - 1))
    noise = float(keep_B @ (gradient_BP**2).sum(axis=1)) / n - signal
    return max(signal, 0.0) / noise if noise > 0 else float("nan")
