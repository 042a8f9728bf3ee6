"""Recursions that run backwards in time: discounted sums to go, and generalised advantages.

Packed form: one flat array, each segment one contiguous run. Padded form: (rows, width) with a mask; masked-out
positions (observations, padding) are crossed without discount and never read.
"""

from __future__ import annotations

import numpy as np

from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray


def starts_of(seg_of_X: IntArray) -> IntArray:
    """First position of every contiguous run of equal ids, (runs,)."""
    if len(seg_of_X) == 0:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.concatenate(([True], seg_of_X[1:] != seg_of_X[:-1]))).astype(np.int64)


def to_go(x_X: Array, seg_of_X: IntArray, *, gamma: float = 1.0) -> FloatArray:
    """Discounted sum from each position to the end of its segment.

        out[t] = x[t] + gamma * out[t+1]          (0 beyond the segment)

    Args:
        x_X: values, e.g. rewards.
        seg_of_X: segment of each value; every segment one contiguous run.
        gamma: discount per position, in [0, 1].
    """
    return _scan(np.asarray(x_X, dtype=np.float64), starts_of(seg_of_X), float(gamma))


def gae(
    reward_X: Array,
    value_X: Array,
    seg_of_X: IntArray,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    last_value: Array | None = None,
) -> FloatArray:
    """Generalised advantage estimate over packed segments.

        d[t] = r[t] + gamma * V[t+1] - V[t]
        A[t] = d[t] + gamma * lam * A[t+1]

    Args:
        reward_X: reward that follows the action at each position.
        value_X: value of the state *before* the action at each position.
        seg_of_X: segment of each position; every segment one contiguous run.
        gamma: discount per position. lam: 0 is one-step TD, 1 is Monte Carlo.
        last_value: value of the state after the last position of each run, in order of the runs
            (truncated trajectories bootstrap with it); 0 where the run terminated. Default 0.

    Source: arXiv:1506.02438, eq. 16.
    """
    reward = np.asarray(reward_X, dtype=np.float64)
    value = np.asarray(value_X, dtype=np.float64)
    first = starts_of(seg_of_X)
    if len(reward) == 0:
        return np.zeros(0)
    after = np.empty_like(value)
    after[:-1] = value[1:]
    end = np.append(first[1:], len(reward)) - 1
    after[end] = 0.0 if last_value is None else last_value
    return _scan(reward + gamma * after - value, first, gamma * lam)


def to_go_padded(x_NL: Array, mask_NL: BoolArray, *, gamma: float = 1.0) -> FloatArray:
    """`to_go` over the True positions of each row; 0 elsewhere. Shapes (N, L)."""
    return gae_padded(x_NL, np.zeros(x_NL.shape), mask_NL, gamma=gamma, lam=1.0)


def gae_padded(
    reward_NL: Array,
    value_NL: Array,
    mask_NL: BoolArray,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    last_value_N: Array | None = None,
) -> FloatArray:
    """`gae` over the True positions of each row of a padded batch; exactly 0 elsewhere. Shapes (N, L).

    Rewards and values at masked-out positions are never read, so they may hold anything, NaN included.
    """
    mask = np.asarray(mask_NL, dtype=bool)
    row, column = np.nonzero(mask)
    out = np.zeros(mask.shape)
    last = None
    if last_value_N is not None:
        last = np.asarray(last_value_N, dtype=np.float64)[np.flatnonzero(mask.any(axis=1))]
    reward, value = np.asarray(reward_NL)[row, column], np.asarray(value_NL)[row, column]
    out[row, column] = gae(reward, value, row, gamma=gamma, lam=lam, last_value=last)
    return out


def _scan(d_X: FloatArray, first: IntArray, factor: float) -> FloatArray:
    """out[t] = d[t] + factor * out[t+1] inside each run that starts at ``first``."""
    if factor == 0.0 or len(d_X) == 0:
        return d_X.copy()
    length = np.diff(np.append(first, len(d_X)))
    end = first + length - 1
    out = d_X.copy()
    # time-major: step k from the end, over all runs that are at least that long
    order = np.argsort(-length, kind="stable")
    end, alive = end[order], length[order]
    for k in range(1, int(alive[0])):
        n = int(np.searchsorted(-alive, -k, side="left"))
        out[end[:n] - k] += factor * out[end[:n] - k + 1]
    return out
