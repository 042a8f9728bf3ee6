"""Sum, mean, std and centring by segment id, in float64 and without epsilons.

The convention that the whole library rests on: a comparison set without spread gives exact zeros.
"Without spread" is relative to the magnitude of the values, because seven copies of 0.3 have a
rounding residue that a division would turn into a signal.
"""

from __future__ import annotations

import numpy as np

from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray

SPREAD_TOLERANCE = 1e-9
"""A spread below this share of the largest magnitude in the segment counts as none."""


def _size(seg_of_X: IntArray, n: int | None) -> int:
    return int(seg_of_X.max()) + 1 if n is None and len(seg_of_X) else (n or 0)


def seg_count(seg_of_X: IntArray, *, where: BoolArray | None = None, n: int | None = None) -> IntArray:
    """Number of (selected) positions in each segment, (n,) int64."""
    chosen = seg_of_X if where is None else seg_of_X[where]
    return np.bincount(chosen, minlength=_size(seg_of_X, n)).astype(np.int64)


def seg_sum(
    x_X: Array, seg_of_X: IntArray, *, where: BoolArray | None = None, n: int | None = None
) -> FloatArray:
    """Sum of the selected values of each segment, (n,) float64; an empty segment sums to 0.

    Values outside ``where`` are never read into the sum, so NaN there is harmless.
    """
    size = _size(seg_of_X, n)
    if where is not None:
        x_X, seg_of_X = x_X[where], seg_of_X[where]
    return np.bincount(seg_of_X, weights=x_X, minlength=size).astype(np.float64)


def seg_mean(
    x_X: Array, seg_of_X: IntArray, *, where: BoolArray | None = None, n: int | None = None
) -> FloatArray:
    """Mean of the selected values of each segment, (n,); an empty segment has mean 0."""
    size = _size(seg_of_X, n)
    total = seg_sum(x_X, seg_of_X, where=where, n=size)
    return total / np.maximum(seg_count(seg_of_X, where=where, n=size), 1)


def seg_std(
    x_X: Array, seg_of_X: IntArray, *, ddof: int = 1, where: BoolArray | None = None, n: int | None = None
) -> FloatArray:
    """Two-pass standard deviation of each segment, (n,).

    Args:
        x_X: values.
        seg_of_X: segment of each value.
        ddof: 1 divides by the count minus one (sample std, the house convention), 0 by the count.
        where: values that take part.
        n: number of segments, where trailing ones may be empty.

    Returns:
        Exactly 0 for a segment with at most ``ddof`` values or without spread (see SPREAD_TOLERANCE).
    """
    size = _size(seg_of_X, n)
    if where is not None:
        x_X, seg_of_X = x_X[where], seg_of_X[where]
    count = np.bincount(seg_of_X, minlength=size)
    mean = np.bincount(seg_of_X, weights=x_X, minlength=size) / np.maximum(count, 1)
    square = np.bincount(seg_of_X, weights=(x_X - mean[seg_of_X]) ** 2, minlength=size)
    std = np.sqrt(square / np.maximum(count - ddof, 1))
    return np.where((count > ddof) & (std > spread_floor(x_X, seg_of_X, n=size)), std, 0.0)


def spread_floor(x_X: Array, seg_of_X: IntArray, *, n: int) -> FloatArray:
    """The deviation below which a segment counts as constant: SPREAD_TOLERANCE × its largest magnitude."""
    largest = np.zeros(n)
    np.maximum.at(largest, seg_of_X, np.abs(x_X))
    return SPREAD_TOLERANCE * largest


def centre(
    x_X: Array,
    seg_of_X: IntArray,
    *,
    scale: str = "none",
    ddof: int = 1,
    where: BoolArray | None = None,
    leave_one_out: bool = False,
    epsilon: float = 0.0,
) -> FloatArray:
    """Each value minus the mean of its segment, optionally divided by the segment's std.

        out[x] = x - mean_seg(x)                      scale="none"
        out[x] = (x - mean_seg(x)) / std_seg(x)       scale="std"
        leave_one_out: the mean is that of the *others*, i.e. n/(n-1) times the plain difference

    Args:
        x_X: values, reward units.
        seg_of_X: segment of each value, any order.
        scale: "none" keeps the unit, "std" has none.
        ddof: of the std, see `seg_std`.
        where: values that take part; the rest neither move the mean nor get a value.
        leave_one_out: compare with the others instead of with all.
        epsilon: added to the std; 0 is the house convention, hosts add 1e-4 to 1e-6 (parity only).

    Returns:
        (X,) float64; exactly 0 outside ``where``, alone in a segment, and where a segment has no spread.
    """
    if where is not None and where.all():
        where = None
    x = np.asarray(x_X, dtype=np.float64)
    out = np.zeros(len(x))
    if len(x) == 0:
        return out
    chosen, seg = (x, seg_of_X) if where is None else (x[where], seg_of_X[where])
    size = int(seg_of_X.max()) + 1
    count = np.bincount(seg, minlength=size)
    mean = np.bincount(seg, weights=chosen, minlength=size) / np.maximum(count, 1)
    d = chosen - mean[seg]
    std = np.sqrt(np.bincount(seg, weights=d * d, minlength=size) / np.maximum(count - ddof, 1))
    has_spread = (count > 1) & (std > spread_floor(chosen, seg, n=size))
    if leave_one_out:
        d = d * (count / np.maximum(count - 1, 1))[seg]
    if scale == "std":
        d = np.divide(d, (std + epsilon)[seg], out=np.zeros_like(d), where=has_spread[seg])
    else:
        d = np.where(has_spread[seg], d, 0.0)
    if where is None:
        return d
    out[where] = d
    return out
