"""How the credit of one batch agrees with the exact advantage, unit by unit."""

from __future__ import annotations

import numpy as np

from apportion.numerics import BoolArray, FloatArray, IntArray

NOTHING = 1e-9  # advantages smaller than this are 0 but for rounding
CHOICES = 5


def rank_agreement(credit_S: FloatArray, right_S: FloatArray) -> float:
    """Spearman's rank correlation, ties by their mean rank; NaN where one of the two is constant."""
    if len(credit_S) < 2 or np.ptp(credit_S) == 0 or np.ptp(right_S) == 0:
        return float("nan")
    return float(np.corrcoef(_ranks(credit_S), _ranks(right_S))[0, 1])


def sign_agreement(credit_S: FloatArray, right_S: FloatArray) -> float:
    """Share of equal signs among units whose exact advantage is not 0; a credit of 0 is no agreement."""
    counts = np.abs(right_S) > NOTHING
    return float(np.mean(np.sign(credit_S[counts]) == np.sign(right_S[counts]))) if counts.any() else float("nan")


def top_of_five(
    credit_S: FloatArray, right_S: FloatArray, traj_of_S: IntArray, known_S: BoolArray, random: np.random.Generator
) -> float:
    """How often the largest credit among five units of a rollout falls on the one with the largest exact advantage.

    One draw of five for each rollout of five known units or more whose best is one; ties in the credit count for their
    share, so constant credit has 0.2. NaN where no rollout is long enough.
    """
    hits = []
    for start, stop in _runs(traj_of_S):
        mine = start + np.flatnonzero(known_S[start:stop])
        if len(mine) < CHOICES:
            continue
        five = random.choice(mine, size=CHOICES, replace=False)
        best = np.flatnonzero(right_S[five] > right_S[five].max() - NOTHING)
        if len(best) == 1:
            top = np.flatnonzero(credit_S[five] > credit_S[five].max() - NOTHING)
            hits.append((best[0] in top) / len(top))
    return float(np.mean(hits)) if hits else float("nan")


def _ranks(x: FloatArray) -> FloatArray:
    _, inverse, count = np.unique(np.round(x, 12), return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray(((last - count + last - 1) / 2.0)[inverse], dtype=np.float64)


def _runs(traj_of_S: IntArray) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(traj_of_S)) + 1
    return list(zip([0, *edges.tolist()], [*edges.tolist(), len(traj_of_S)], strict=True))
