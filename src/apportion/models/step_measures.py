"""How well scores tell good steps from bad ones on rollouts that were not fitted, with intervals over trajectories."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.models.metrics import RESAMPLES
from apportion.numerics import Array, FloatArray, IntArray

NAMES = ("accuracy", "auc", "good", "first_error")


def step_measures(score_K: Array, good_K: Array, traj_of_K: IntArray, *, seed: int = 0) -> dict[str, Any]:
    """Measures of scores of steps against whether they are good.

        accuracy      share of steps on the right side of 0
        auc           chance that a good step scores above a bad one, ties a half
        good          share of steps that are good: what a constant answer would be right in, or 1 less this
        first_error   share of the trajectories with a bad step in which the first step below 0 is the first bad one

    Args:
        score_K: a score of each labelled step, above 0 for good. good_K: whether it is. traj_of_K: its trajectory, not
            decreasing; steps in time order. Trajectories are drawn whole.
        seed: of the bootstrap.

    Returns:
        ``trajectories`` and ``steps``: how many there are; each measure as [value, low, high], None where there is
        nothing to tell.
    """
    score, good = np.asarray(score_K, dtype=np.float64), np.asarray(good_K, dtype=bool)
    if not len(score):
        return {"trajectories": 0, "steps": 0} | {name: [None] * 3 for name in NAMES}
    traj = np.unique(traj_of_K, return_inverse=True)[1]
    count = int(traj.max()) + 1
    found_N, there_N = _first_errors(score, good, traj, count)
    place = np.unique(score, return_inverse=True)[1]
    rng = np.random.default_rng(seed)
    weights = [
        np.ones(count),
        *(np.bincount(rng.integers(count, size=count), minlength=count) for _ in range(RESAMPLES)),
    ]
    rows = []
    for weight_N in weights:
        weight = weight_N[traj]
        right = ((score > 0) == good) @ weight
        errors = there_N @ weight_N
        first = found_N @ weight_N / errors if errors else np.nan
        rows.append((right / weight.sum(), _auc(place, good, weight), good @ weight / weight.sum(), first))
    out: dict[str, Any] = {"trajectories": count, "steps": len(score)}
    for name, column in zip(NAMES, np.array(rows, dtype=np.float64).T, strict=True):
        drawn = column[1:][np.isfinite(column[1:])]
        ends = np.quantile(drawn, [0.025, 0.975]) if len(drawn) and count > 1 else (np.nan, np.nan)
        out[name] = [float(x) if np.isfinite(x) else None for x in (column[0], *ends)]
    return out


def _auc(place: IntArray, good: Array, weight: Array) -> float:
    """Of weighted steps, whose scores are told by their rank among the distinct ones; NaN with one class only."""
    size = int(place.max()) + 1
    above = np.bincount(place, weights=np.where(good, weight, 0.0), minlength=size)
    below = np.bincount(place, weights=np.where(good, 0.0, weight), minlength=size)
    pairs = above.sum() * below.sum()
    return float((above * (np.cumsum(below) - below / 2)).sum() / pairs) if pairs else float("nan")


def _first_errors(score: FloatArray, good: Array, traj: IntArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Whether the first bad step of each trajectory is the first that scores below 0, and whether it has one."""
    none = len(score)
    true_N, said_N = np.full(count, none), np.full(count, none)
    at = np.arange(len(score))
    np.minimum.at(true_N, traj[~good], at[~good])
    np.minimum.at(said_N, traj[score < 0], at[score < 0])
    there_N = true_N < none
    return (there_N & (true_N == said_N)).astype(np.float64), there_N.astype(np.float64)
