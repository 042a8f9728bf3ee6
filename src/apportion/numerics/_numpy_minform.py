"""The min-form in NumPy alone; the compiled twin is `_numba_minform`."""

from __future__ import annotations

import numpy as np

from apportion.numerics.typing import FloatArray, IntArray


def soft(reward_X: FloatArray, seg_of_X: IntArray, n: int, temperature: float, out_X: FloatArray) -> None:
    """out = softmax_seg(-r / temperature) r, for segments 0 .. n - 1 in any order."""
    runs = _runs(seg_of_X)
    np.subtract(_least(reward_X, seg_of_X, n, runs), reward_X, out=out_X)
    out_X /= temperature
    np.exp(out_X, out=out_X)
    if runs is None:
        total_X = np.bincount(seg_of_X, weights=out_X, minlength=n)[seg_of_X]
    else:
        total_X = np.repeat(np.add.reduceat(out_X, runs[0]), runs[1])
    out_X *= reward_X
    out_X /= total_X


def strict(reward_X: FloatArray, seg_of_X: IntArray, n: int, out_X: FloatArray) -> None:
    """out = r divided by how many are smallest, where r is; 0 elsewhere."""
    worst_X = reward_X == _least(reward_X, seg_of_X, n, _runs(seg_of_X))
    many_S = np.bincount(seg_of_X[worst_X], minlength=n)
    out_X[:] = np.where(worst_X, reward_X / np.maximum(many_S, 1)[seg_of_X], 0.0)


def _runs(seg_of_X: IntArray) -> tuple[IntArray, IntArray] | None:
    """Start and size of each segment where all stand in order: then half the work goes without look-ups."""
    if (seg_of_X[1:] < seg_of_X[:-1]).any():
        return None
    start = np.append(0, np.flatnonzero(seg_of_X[1:] != seg_of_X[:-1]) + 1)
    return start, np.diff(start, append=len(seg_of_X))


def _least(reward_X: FloatArray, seg_of_X: IntArray, n: int, runs: tuple[IntArray, IntArray] | None) -> FloatArray:
    """The smallest value of each position's segment."""
    if runs is not None:
        return np.repeat(np.minimum.reduceat(reward_X, runs[0]), runs[1])
    least_S = np.full(n, np.inf)
    np.minimum.at(least_S, seg_of_X, reward_X)
    return least_S[seg_of_X]


def to_come(x_X: FloatArray, seg_of_X: IntArray) -> None:
    """Turn x into its smallest value from each position to the end of its run, in place.

    After k rounds a position knows the 2^k from itself on.
    """
    step, longest = 1, int(np.bincount(seg_of_X).max(initial=0))
    while step < longest:
        same = seg_of_X[step:] == seg_of_X[:-step]
        x_X[:-step] = np.where(same, np.minimum(x_X[:-step], x_X[step:]), x_X[:-step])
        step *= 2
