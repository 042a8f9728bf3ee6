"""Recursions that run backwards in time: discounted sums to go, and generalised advantages.

Packed form: one flat array, each segment one contiguous run. Padded form: (rows, width) with a mask;
masked-out positions (observations, padding) are crossed without discount and never read.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion.errors import DataError
from apportion.numerics import kernels
from apportion.numerics.buffers import check_buffers
from apportion.numerics.run_arrays import (
    bounds_of,
    bounds_of_rows,
    check_discount,
    check_flat,
    check_rows,
    last_of,
    mask_of,
    real,
    same_kind,
)
from apportion.numerics.segments import SPREAD_TOLERANCE
from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray


class AdvantagesAndReturns(NamedTuple):
    """Whitened advantages, and the returns a value model is trained on; same shape and dtype."""

    advantage: Array
    returns: Array


def starts_of(seg_of_X: IntArray) -> IntArray:
    """First position of every contiguous run of equal ids, (runs,)."""
    return bounds_of(np.asarray(seg_of_X))[:-1]


def to_go(x_X: Array, seg_of_X: IntArray, *, gamma: float = 1.0) -> FloatArray:
    """Discounted sum from each position to the end of its segment.

        out[t] = x[t] + gamma * out[t+1]          (0 beyond the segment)

    Args:
        x_X: values, e.g. rewards.
        seg_of_X: segment of each value; every segment one contiguous run.
        gamma: discount per position, in [0, 1].

    Raises:
        DataError: arrays of different length. ConfigError: gamma outside [0, 1].
    """
    check_discount("to_go", gamma=gamma)
    x, seg = real(x_X), np.asarray(seg_of_X)
    check_flat("to_go", x_X=x, seg_of_X=seg)
    bounds = bounds_of(seg)
    return _recursion(x, None, None, bounds, np.zeros(len(bounds) - 1), 1.0, gamma)


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
        gamma: discount per position. lam: 0 is one-step TD, 1 is Monte Carlo. Both in [0, 1].
        last_value: value of the state after the last position of each run, in order of the runs
            (truncated trajectories bootstrap with it); 0 where the run terminated. Default 0.

    Raises:
        DataError: arrays that do not fit each other. ConfigError: gamma or lam outside [0, 1].

    Source: arXiv:1506.02438, eq. 16.
    """
    check_discount("gae", gamma=gamma, lam=lam)
    reward, value = same_kind(reward_X, value_X)
    seg = np.asarray(seg_of_X)
    check_flat("gae", reward_X=reward, value_X=value, seg_of_X=seg)
    bounds = bounds_of(seg)
    last = last_of("gae", last_value, len(bounds) - 1)
    return _recursion(reward, value, None, bounds, last, gamma, gamma * lam)


def to_go_padded(x_NL: Array, mask_NL: BoolArray, *, gamma: float = 1.0) -> FloatArray:
    """`to_go` over the True positions of each row; 0 elsewhere. Shapes (N, L)."""
    check_discount("to_go_padded", gamma=gamma)
    x, mask = real(x_NL), mask_of(mask_NL)
    check_rows("to_go_padded", x_NL=x, mask_NL=mask)
    return _recursion(x, None, mask, bounds_of_rows(x), np.zeros(len(x)), 1.0, gamma)


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
    check_discount("gae_padded", gamma=gamma, lam=lam)
    reward, value = same_kind(reward_NL, value_NL)
    mask = mask_of(mask_NL)
    check_rows("gae_padded", reward_NL=reward, value_NL=value, mask_NL=mask)
    last = last_of("gae_padded", last_value_N, len(reward))
    return _recursion(reward, value, mask, bounds_of_rows(reward), last, gamma, gamma * lam)


def gae_returns_whitened(
    reward_X: Array,
    value_X: Array,
    seg_of_X: IntArray,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    where: BoolArray | None = None,
    last_value: Array | None = None,
    ddof: int = 1,
    epsilon: float = 0.0,
) -> AdvantagesAndReturns:
    """`gae`, the returns A + V, and the advantages whitened over the batch, in one pass over packed input.

        returns[t]   = A[t] + V[t]
        advantage[t] = (A[t] - mean(A)) / sqrt(var(A) + epsilon)      statistics over all selected positions

    Args:
        reward_X, value_X, seg_of_X, gamma, lam, last_value: see `gae`.
        where: positions that take part; the rest (observations) are crossed without discount, never read,
            and 0 in both results.
        ddof: of the variance; 1 is the sample variance.
        epsilon: added to the variance; 0 is the house convention, verl adds 1e-8.

    Returns:
        Two arrays, float32 where rewards and values are, else float64; sums are float64 in any case. All
        advantages are exactly 0 with at most ``ddof`` positions or without spread.

    Raises:
        DataError: arrays that do not fit each other, or an advantage that is not finite (the statistics are
            those of the whole batch, so one NaN would erase it).
    """
    name = "gae_returns_whitened"
    check_discount(name, gamma=gamma, lam=lam)
    reward, value = same_kind(reward_X, value_X)
    seg = np.asarray(seg_of_X)
    mask = None if where is None else mask_of(where)
    chosen = {} if mask is None else {"where": mask}
    check_flat(name, reward_X=reward, value_X=value, seg_of_X=seg, **chosen)
    bounds = bounds_of(seg)
    last = last_of(name, last_value, len(bounds) - 1)
    return _whitened(name, reward, value, mask, bounds, last, gamma, lam, ddof, epsilon)


def to_go_whitened(
    x_X: Array,
    seg_of_X: IntArray,
    *,
    gamma: float = 1.0,
    where: BoolArray | None = None,
    ddof: int = 1,
    epsilon: float = 0.0,
) -> AdvantagesAndReturns:
    """`to_go`, and the same whitened over the batch, in one pass over packed input: REINFORCE++ without its method.

        returns[t]   = x[t] + gamma * returns[t+1]
        advantage[t] = (returns[t] - mean(returns)) / sqrt(var(returns) + epsilon)

    Args:
        x_X, seg_of_X, gamma: see `to_go`.
        where, ddof, epsilon: see `gae_returns_whitened`.

    Returns:
        As `gae_returns_whitened`, which is this with values of 0.

    Raises:
        DataError, ConfigError: as `gae_returns_whitened`.
    """
    name = "to_go_whitened"
    check_discount(name, gamma=gamma)
    x, seg = real(x_X), np.asarray(seg_of_X)
    mask = None if where is None else mask_of(where)
    chosen = {} if mask is None else {"where": mask}
    check_flat(name, x_X=x, seg_of_X=seg, **chosen)
    bounds = bounds_of(seg)
    return _whitened(name, x, None, mask, bounds, np.zeros(len(bounds) - 1), 1.0, gamma, ddof, epsilon)


def gae_returns_whitened_padded(
    reward_NL: Array,
    value_NL: Array,
    mask_NL: BoolArray,
    *,
    gamma: float = 1.0,
    lam: float = 1.0,
    last_value_N: Array | None = None,
    ddof: int = 1,
    epsilon: float = 0.0,
    out: AdvantagesAndReturns | None = None,
) -> AdvantagesAndReturns:
    """`gae_returns_whitened` straight on a padded batch, shapes (N, L); exactly 0 outside the mask.

    Args:
        reward_NL, value_NL, gamma, lam, ddof, epsilon: see `gae_returns_whitened`.
        mask_NL: see `gae_padded`. last_value_N: value of the state after each row, see `gae`.
        out: two arrays to write into, of the shape and dtype of the results, C-contiguous and apart from the inputs;
            whatever they held is gone, padding included, also after an error. Large batches are a third faster
            with them, since the pages of fresh memory are part of the cost. Default fresh arrays.

    Returns:
        As `gae_returns_whitened`; the arrays of ``out`` where given.

    Raises:
        DataError: as `gae_returns_whitened`, or an ``out`` that does not fit.
    """
    name = "gae_returns_whitened_padded"
    check_discount(name, gamma=gamma, lam=lam)
    reward, value = same_kind(reward_NL, value_NL)
    mask = mask_of(mask_NL)
    check_rows(name, reward_NL=reward, value_NL=value, mask_NL=mask)
    last = last_of(name, last_value_N, len(reward))
    if out is not None:
        out = AdvantagesAndReturns(*out)
        named = {"out.advantage": out.advantage, "out.returns": out.returns}
        inputs = {"reward_NL": reward, "value_NL": value, "mask_NL": mask}
        check_buffers(name, named, inputs, like=reward)
        kernels.pick(reward.size).clear(mask.reshape(-1), *(x.reshape(-1) for x in out))
    return _whitened(name, reward, value, mask, bounds_of_rows(reward), last, gamma, lam, ddof, epsilon, out)


def _recursion(
    reward: Array,
    value: Array | None,
    mask: BoolArray | None,
    bounds: IntArray,
    last: FloatArray,
    gamma: float,
    factor: float,
) -> FloatArray:
    """One float64 result per position, in the shape of the rewards; 0 outside the mask."""
    out = np.zeros(reward.shape) if mask is not None else np.empty(reward.shape)
    flat = [None if x is None else x.reshape(-1) for x in (reward, value, mask)]
    kernels.pick(out.size).gae(*flat, bounds, last, float(gamma), float(factor), out.reshape(-1), None)
    return out


def _whitened(
    name: str,
    reward: Array,
    value: Array | None,
    mask: BoolArray | None,
    bounds: IntArray,
    last: FloatArray,
    gamma: float,
    lam: float,
    ddof: int,
    epsilon: float,
    out: AdvantagesAndReturns | None = None,
) -> AdvantagesAndReturns:
    """``out``, where given, is 0 outside the mask already."""
    # Without a mask the kernel writes every position. np.zeros takes cleared pages, np.zeros_like writes zeros.
    make = np.empty if mask is None else np.zeros
    result = out or AdvantagesAndReturns(make(reward.shape, reward.dtype), make(reward.shape, reward.dtype))
    advantage, returns = (x.reshape(-1) for x in result)
    reward, value, mask = reward.reshape(-1), *(None if x is None else x.reshape(-1) for x in (value, mask))
    kernel = kernels.pick(reward.size)
    count, shift, first, second = kernel.gae(
        reward, value, mask, bounds, last, float(gamma), float(gamma * lam), advantage, returns
    )
    if count > 0 and not np.isfinite(second):
        at = int(np.argmin(np.isfinite(advantage)))
        run = int(np.searchsorted(bounds, at, side="right")) - 1
        raise DataError(
            f"{name}: the advantage at position {at - int(bounds[run])} of run {run} is not finite, so the "
            f"batch cannot be whitened; look for NaN, inf or huge numbers in the rewards and values there"
        )
    if count <= ddof:
        advantage[:] = 0.0
        return result
    mean = shift + first / count
    variance = max(second - first * first / count, 0.0) / (count - ddof)
    std = variance**0.5
    flat = std == 0.0
    if std <= 2 * SPREAD_TOLERANCE * abs(mean):  # max|A| ≤ |mean| + std·√n: elsewhere it cannot matter
        flat = std <= SPREAD_TOLERANCE * float(np.abs(advantage).max())
    if flat:
        advantage[:] = 0.0
    else:
        kernel.whiten(advantage, mask, mean, 1.0 / (variance + epsilon) ** 0.5)
    return result
