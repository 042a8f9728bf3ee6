"""How good values are: error against the truth, beside what sampling alone would make, and ranking of actions."""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np

from apportion.errors import ConfigError
from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray

EDGES = (0.02, 0.1, 0.3, 0.7, 0.9, 0.98)
"""Where strata of the true value end, for returns from 0 to 1."""


class Errors(NamedTuple):
    """Of some states: how many, mean true value, mean absolute and mean squared error, share within the tolerance."""

    states: int
    truth: float
    absolute: float
    squared: float
    within: float


class Ranking(NamedTuple):
    """How values order the actions of a state.

    Attributes:
        pairs: pairs of actions with different true values. pairwise: share of them that the values order rightly.
        sets: states with at least three actions that differ. top1: share of them whose best action has the best value.
        chance: what ``top1`` is for values without meaning.
    """

    pairs: int
    pairwise: float
    sets: int
    top1: float
    chance: float


def errors_of(value_X: Array, truth_X: Array, *, tolerance: float = 0.05) -> Errors:
    """Errors of values against the truth, reward units; NaN of nothing. Within means closer than the tolerance."""
    value, truth = np.asarray(value_X, dtype=np.float64), np.asarray(truth_X, dtype=np.float64)
    if not len(value):
        return Errors(0, *[float("nan")] * 4)
    error = np.abs(value - truth)
    return Errors(
        len(error),
        float(truth.mean()),
        float(error.mean()),
        float((error**2).mean()),
        float(np.mean(error < tolerance - 1e-12)),
    )


def strata(truth_X: Array, edges: tuple[float, ...] = EDGES) -> IntArray:
    """Stratum of each true value: below the first edge 0, from the last edge on ``len(edges)``."""
    return np.searchsorted(np.asarray(edges), np.asarray(truth_X, dtype=np.float64), side="right").astype(np.int64)


def explained_variance(value_X: Array, target_X: Array) -> float:
    """1 - Var(target - value) / Var(target); NaN where the target does not vary."""
    value, target = np.asarray(value_X, dtype=np.float64), np.asarray(target_X, dtype=np.float64)
    if len(target) < 2 or float(target.var()) == 0.0:
        return float("nan")
    return 1.0 - float((target - value).var() / target.var())


def sampling_error(truth_X: Array, samples: int) -> float:
    """Mean squared error of the mean of so many returns of 0 or 1: the mean of p (1 - p) / samples."""
    p = np.clip(np.asarray(truth_X, dtype=np.float64), 0.0, 1.0)
    return float(np.mean(p * (1.0 - p)) / samples) if len(p) else float("nan")


def sampled_within(truth_X: Array, samples: int, *, tolerance: float = 0.05) -> float:
    """Share within the tolerance that the mean of so many returns of 0 or 1 has, on average over the states.

    P(|Binomial(K, p) / K - p| < tolerance)       its grid of K-ths makes it 0 for K = 9, p = 1/2
    """
    p = np.clip(np.asarray(truth_X, dtype=np.float64), 0.0, 1.0)
    if not len(p):
        return float("nan")
    total = np.zeros(len(p))
    for hits in range(samples + 1):
        near = np.abs(hits / samples - p) < tolerance - 1e-12
        total += near * comb(samples, hits) * p**hits * (1.0 - p) ** (samples - hits)
    return float(total.mean())


def ranking_of(value_X: Array, truth_X: Array, set_of_X: IntArray, *, ties: str = "wrong", gap: float = 0.0) -> Ranking:
    """How well values order the actions of each set.

    Args:
        value_X, truth_X: of the actions, reward units. set_of_X: state of each.
        ties: equal values of different actions count as "wrong", or as "half" right.
        gap: actions whose true values differ by no more are not told apart.
    """
    if ties not in ("wrong", "half"):
        raise ConfigError(f"ties is {ties!r}; give 'wrong' or 'half'")
    value, truth = np.asarray(value_X, dtype=np.float64), np.asarray(truth_X, dtype=np.float64)
    credit = 0.0 if ties == "wrong" else 0.5
    pairs, right, sets, top, chance = 0, 0.0, 0, 0.0, 0.0
    for members in _members(np.asarray(set_of_X, dtype=np.int64)):
        v, t = value[members], truth[members]
        i, j = np.triu_indices(len(members), 1)
        told: BoolArray = np.abs(t[i] - t[j]) > gap
        agree = np.sign(v[i] - v[j]) * np.sign(t[i] - t[j])
        pairs += int(told.sum())
        right += float(np.sum(told & (agree > 0)) + credit * np.sum(told & (agree == 0)))
        if len(members) < 3 or not told.any():
            continue
        best, chosen = t >= t.max() - gap, v >= v.max()
        sets += 1
        chance += float(best.mean())
        if ties == "half":
            top += float(best[chosen].mean())  # one of the equals is taken
        else:
            top += float(best[chosen].all())
    nothing = float("nan")
    return Ranking(
        pairs,
        right / pairs if pairs else nothing,
        sets,
        top / sets if sets else nothing,
        chance / sets if sets else nothing,
    )


def _members(set_of_X: IntArray) -> list[IntArray]:
    order = np.argsort(set_of_X, kind="stable")
    bounds = np.flatnonzero(np.diff(set_of_X[order])) + 1
    return [part for part in np.split(order, bounds) if len(part)]


def by_position(value_X: Array, truth_X: Array, position_X: IntArray) -> FloatArray:
    """Mean absolute error at each position, NaN where nothing stands; (largest position + 1,)."""
    position = np.asarray(position_X, dtype=np.int64)
    if not len(position):
        return np.zeros(0)
    error = np.abs(np.asarray(value_X, dtype=np.float64) - np.asarray(truth_X, dtype=np.float64))
    count = np.bincount(position)
    total = np.bincount(position, weights=error)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
