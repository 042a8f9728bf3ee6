"""Sum, mean, std and centring by segment id, in float64 and without epsilons.

The convention that the whole library rests on: a comparison set without spread gives exact zeros.
"Without spread" is relative to the magnitude of the values, because seven copies of 0.3 have a
rounding residue that a division would turn into a signal.
"""

from __future__ import annotations

import numpy as np

from apportion.errors import ConfigError, DataError
from apportion.numerics import kernels
from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray

SPREAD_TOLERANCE = 1e-9
"""A spread below this share of the largest magnitude in the segment counts as none."""


def seg_count(seg_of_X: IntArray, *, where: BoolArray | None = None, n: int | None = None) -> IntArray:
    """Number of (selected) positions in each segment, (n,) int64."""
    seg, size = _segments(seg_of_X, n)
    chosen = seg if where is None else seg[where]
    return np.bincount(chosen, minlength=size).astype(np.int64, copy=False)


def seg_sum(x_X: Array, seg_of_X: IntArray, *, where: BoolArray | None = None, n: int | None = None) -> FloatArray:
    """Sum of the selected values of each segment, (n,) float64; an empty segment sums to 0.

    Values outside ``where`` are never read into the sum, so NaN there is harmless.
    """
    x, seg, chosen, size = _columns(x_X, seg_of_X, where, n)
    return _sums(x, seg, chosen, size)[1]


def seg_mean(x_X: Array, seg_of_X: IntArray, *, where: BoolArray | None = None, n: int | None = None) -> FloatArray:
    """Mean of the selected values of each segment, (n,); an empty segment has mean 0."""
    x, seg, chosen, size = _columns(x_X, seg_of_X, where, n)
    count, total = _sums(x, seg, chosen, size)
    return total / np.maximum(count, 1)


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
        Exactly 0 for a segment with at most ``ddof`` values or without spread (see SPREAD_TOLERANCE);
        NaN for one that holds NaN or inf.
    """
    x, seg, chosen, size = _columns(x_X, seg_of_X, where, n)
    count, _, square, largest = _moments(x, seg, chosen, size)
    std = np.sqrt(square / np.maximum(count - ddof, 1))
    return np.where((count > ddof) & ~(std <= SPREAD_TOLERANCE * largest), std, 0.0)


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
        leave_one_out: mean and std are those of the *others*; without scale that is n/(n-1) times the
        plain difference, and where the others have no spread the difference stays unscaled

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

    Raises:
        DataError: arrays of different length or negative ids. ConfigError: an unknown scale.
    """
    if scale not in ("none", "std"):
        raise ConfigError(f"centre: scale must be 'none' or 'std', got {scale!r}")
    x, seg, chosen, size = _columns(x_X, seg_of_X, where, None)
    if len(x) == 0:
        return np.zeros(0)
    count, mean, square, largest = _moments(x, seg, chosen, size)
    std = np.sqrt(square / np.maximum(count - ddof, 1))
    level = (count < 2) | (std <= SPREAD_TOLERANCE * largest)  # NaN is not "no spread": it stays visible
    divisor = std + epsilon if scale == "std" and not leave_one_out else np.ones(size)
    if leave_one_out:
        divisor = np.maximum(count - 1, 1) / np.maximum(count, 1)
    divisor[level] = np.inf
    out = np.zeros(len(x))
    with np.errstate(invalid="ignore"):  # inf − inf in a segment that holds inf
        kernels.pick(len(x)).centred(x, seg, chosen, mean, divisor, out)
        out += 0.0  # −0.0 becomes 0.0
        if leave_one_out and scale == "std":
            out /= _std_of_others(x, seg, chosen, count, square, out, ddof, epsilon)
    return out


def _std_of_others(
    x: Array,
    seg: IntArray,
    where: BoolArray | None,
    count_S: IntArray,
    square_S: FloatArray,
    loo_X: FloatArray,
    ddof: int,
    epsilon: float,
) -> FloatArray:
    """Std of the other values of the segment (plus epsilon), 1 where those have no spread or are too few."""
    others = count_S[seg] - 1
    own = loo_X * loo_X * (others / np.maximum(others + 1, 1))  # the part of the squares due to the value
    rest = square_S[seg] - own
    # Where the others are nearly constant the subtraction leaves only rounding. That holds for one value per
    # segment at most (for both in a pair, where one value is left and has no spread), so these are taken out
    # and the rest is measured directly.
    outlier = (rest < 1e-6 * square_S[seg]) & (others > 1)
    chosen = ~outlier if where is None else where & ~outlier
    std = np.sqrt(np.maximum(rest, 0.0) / np.maximum(others - ddof, 1))
    std[outlier] = seg_std(x, seg, ddof=ddof, where=chosen, n=len(count_S))[seg[outlier]]
    return np.where((others > max(ddof, 1)) & ~(std == 0.0), std + epsilon, 1.0)


def _sums(x: Array, seg: IntArray, where: BoolArray | None, size: int) -> tuple[IntArray, FloatArray]:
    count, total = np.zeros(size, dtype=np.int64), np.zeros(size)
    kernels.pick(len(x)).sums(x, seg, where, count, total)
    return count, total


def _moments(
    x: Array, seg: IntArray, where: BoolArray | None, size: int
) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
    """Count, mean, sum of squared deviations and largest magnitude of each segment."""
    count, total = _sums(x, seg, where, size)
    mean = total / np.maximum(count, 1)
    square, largest = np.zeros(size), np.zeros(size)
    with np.errstate(invalid="ignore"):
        kernels.pick(len(x)).deviations(x, seg, where, mean, square, largest)
    return count, mean, square, largest


def _segments(seg_of_X: IntArray, n: int | None) -> tuple[IntArray, int]:
    """Ids as int64 and the number of segments, checked: a compiled kernel does not check its indices."""
    seg = np.ascontiguousarray(seg_of_X, dtype=np.int64)
    if len(seg) == 0:
        return seg, n or 0
    low, high = int(seg.min()), int(seg.max())
    if low < 0:
        raise DataError(f"segment ids must not be negative, got {low}; select with `where` instead")
    if n is not None and high >= n:
        raise DataError(f"segment id {high} does not fit n={n} segments; raise n or leave it out")
    return seg, high + 1 if n is None else n


def _columns(
    x_X: Array, seg_of_X: IntArray, where: BoolArray | None, n: int | None
) -> tuple[Array, IntArray, BoolArray | None, int]:
    x = np.asarray(x_X)
    x = np.ascontiguousarray(x, dtype=np.float64)
    seg, size = _segments(seg_of_X, n)
    chosen = None if where is None else np.ascontiguousarray(where, dtype=np.bool_)
    if len(x) != len(seg) or (chosen is not None and len(chosen) != len(seg)):
        raise DataError(
            f"{len(x)} values, {len(seg)} segment ids"
            + (f" and {len(chosen)} flags" if chosen is not None else "")
            + " do not fit each other; give one of each per position"
        )
    if chosen is not None and chosen.all():
        chosen = None
    return x, seg, chosen, size
