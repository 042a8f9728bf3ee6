"""How good predicted values are on rollouts that were not fitted, with intervals over trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apportion.numerics import Array, FloatArray, IntArray

RESAMPLES = 500
NAMES = ("explained_variance", "error", "bias")


def measures(predicted_K: Array, target_K: Array, traj_of_K: IntArray, *, seed: int = 0) -> dict[str, Any]:
    """Measures of predictions against returns.

        explained_variance   1 − Σ(target − predicted)² / Σ(target − mean)²     1 is perfect, 0 as good as a constant
        error                mean squared error, squared reward units
        bias                 mean of predicted − target, reward units

    Args:
        predicted_K, target_K: predictions and what came. traj_of_K: trajectory of each; they are drawn together.
        seed: of the bootstrap.

    Returns:
        ``trajectories``: how many there are; each measure as [value, low, high], None where there is nothing to tell.
    """
    predicted, target = np.asarray(predicted_K, dtype=np.float64), np.asarray(target_K, dtype=np.float64)
    if not len(target):
        return {"trajectories": 0} | {name: [None] * 3 for name in NAMES}
    traj = np.unique(traj_of_K, return_inverse=True)[1]
    count = int(traj.max()) + 1
    sums = np.stack(
        [
            np.bincount(traj, weights=x, minlength=count)
            for x in (np.ones(len(target)), target, target**2, (target - predicted) ** 2, predicted - target)
        ]
    )
    whole = _of(sums.sum(axis=1, keepdims=True))[:, 0]
    rng = np.random.default_rng(seed)
    drawn = np.stack([sums[:, rng.integers(count, size=count)].sum(axis=1) for _ in range(RESAMPLES)], axis=1)
    found = _of(drawn)
    out: dict[str, Any] = {"trajectories": count}
    for name, value, sample in zip(NAMES, whole, found, strict=True):
        sample = sample[np.isfinite(sample)]
        ends = np.quantile(sample, [0.025, 0.975]) if len(sample) and count > 1 else (np.nan, np.nan)
        out[name] = [float(x) if np.isfinite(x) else None for x in (value, *ends)]
    return out


def _of(sums: FloatArray) -> FloatArray:
    n, first, second, squared, error = sums
    spread = second - first**2 / n
    flat = spread <= 1e-12 * np.maximum(second, 1e-300)
    explained = np.where(flat, np.nan, 1 - squared / np.where(flat, 1.0, spread))
    return np.stack((explained, squared / n, error / n))


def classified(score_N: Array, label_N: Array, *, seed: int = 0) -> dict[str, Any]:
    """Measures of scores that tell successes from failures.

        accuracy   share of rollouts on the right side of 0
        auc        chance that a success scores above a failure, ties a half

    Args:
        score_N: one score per trajectory. label_N: whether it succeeded. seed: of the bootstrap.

    Returns:
        As `measures`.
    """
    score, label = np.asarray(score_N, dtype=np.float64), np.asarray(label_N, dtype=bool)
    if not len(score):
        return {"trajectories": 0, "accuracy": [None] * 3, "auc": [None] * 3}
    rng = np.random.default_rng(seed)
    samples = [np.arange(len(score)), *(rng.integers(len(score), size=len(score)) for _ in range(RESAMPLES))]
    found = np.array([(np.mean((score[at] > 0) == label[at]), _auc(score[at], label[at])) for at in samples])
    out: dict[str, Any] = {"trajectories": len(score)}
    for name, column in zip(("accuracy", "auc"), found.T, strict=True):
        drawn = column[1:][np.isfinite(column[1:])]
        ends = np.quantile(drawn, [0.025, 0.975]) if len(drawn) and len(score) > 1 else (np.nan, np.nan)
        out[name] = [float(x) if np.isfinite(x) else None for x in (column[0], *ends)]
    return out


def paired(groups: Sequence[tuple[Array, Array]], *, seed: int = 0) -> list[float | None]:
    """Share of the pairs of a group whose better member has the higher score, with a 95% interval over groups.

    Args:
        groups: scores and outcomes of the members of each group. Pairs are members with different outcomes; a tie of
            scores counts a half.
        seed: of the bootstrap, which draws groups.

    Returns:
        [value, low, high]; None where no group has a pair.
    """
    right, count = [], []
    for scores, outcomes in groups:
        score, outcome = np.asarray(scores, dtype=np.float64), np.asarray(outcomes, dtype=np.float64)
        better, worse = np.nonzero(outcome[:, None] > outcome)
        if len(better):
            right.append(float(np.sum((np.sign(score[better] - score[worse]) + 1) / 2)))
            count.append(len(better))
    if not count:
        return [None] * 3
    told, size = np.array(right), np.array(count)
    drawn = np.random.default_rng(seed).integers(len(size), size=(RESAMPLES, len(size)))
    ends = np.quantile(told[drawn].sum(axis=1) / size[drawn].sum(axis=1), [0.025, 0.975])
    return [float(told.sum() / size.sum()), *(map(float, ends) if len(size) > 1 else (None, None))]


def _auc(score: Array, label: Array) -> float:
    """From ranks, ties in the middle; NaN with one class only."""
    positive = int(label.sum())
    negative = len(label) - positive
    if not positive or not negative:
        return float("nan")
    _, place, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    return float((rank[label].sum() - positive * (positive + 1) / 2) / (positive * negative))
