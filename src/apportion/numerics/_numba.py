"""The kernels compiled with numba. Imported by `kernels` on first use only: numba costs half a second.

Each loop is ordinary Python that numba specialises: an argument that is ``None`` removes the branches that
need it. A specialisation is compiled when it is first called and kept in numba's cache on disk; where no
folder is writable (a read-only installation without a home) it is compiled again in every process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types

from apportion.numerics import _numpy
from apportion.numerics._numpy import Moments
from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray

SMALLEST_FACTOR = 1e-30
"""Below, factor**8 would underflow and 0·inf would turn an inf into NaN; the twin handles these few cases."""

STRETCH = 256
"""Positions whose mask is looked at together: observations and padding come in stretches, and a loop that knows that
all are selected, or that asks in every position, runs at the width of a vector; one that branches does not."""

AT_HAND = 4096
"""Results that are summed together, at least: few enough to be in the cache still, many enough for the width of it."""

ROOM = 4096
"""Runs that are found in one pass; where there are more, a second pass knows how many."""


def gae(
    reward_X: Array,
    value_X: Array | None,
    mask_X: BoolArray | None,
    bounds_R: IntArray,
    last_R: FloatArray,
    gamma: float,
    factor: float,
    advantage_X: Array,
    returns_X: Array | None,
) -> Moments:
    """See `_numpy.gae`."""
    inputs = (reward_X, value_X, mask_X, bounds_R, last_R, gamma, factor)
    if abs(factor) < SMALLEST_FACTOR:
        return _numpy.gae(*inputs, advantage_X, returns_X)
    moments: Moments = _call(_gae, inputs, (advantage_X, returns_X))
    return moments


def whiten(x_X: Array, mask_X: BoolArray | None, mean: float, scale: float) -> None:
    """See `_numpy.whiten`."""
    _call(_whiten, (mask_X, mean, scale), (x_X,))


def clear(mask_X: BoolArray, advantage_X: Array, returns_X: Array) -> None:
    """See `_numpy.clear`."""
    _call(_clear, (mask_X,), (advantage_X, returns_X))


def starts(seg_of_X: IntArray) -> IntArray:
    """See `_numpy.starts`."""
    if seg_of_X.dtype.kind not in "iu" or not seg_of_X.flags.c_contiguous:
        return _numpy.starts(seg_of_X)
    out = np.empty(ROOM, dtype=np.int64)
    found = _call(_starts, (seg_of_X,), (out,))
    if found > ROOM:
        out = np.empty(found, dtype=np.int64)
        _call(_starts, (seg_of_X,), (out,))
    return out[:found]


def sums(x_X: Array, seg_of_X: IntArray, where: BoolArray | None, count_S: IntArray, total_S: FloatArray) -> None:
    """See `_numpy.sums`."""
    _call(_sums, (x_X, seg_of_X, where), (count_S, total_S))


def deviations(
    x_X: Array,
    seg_of_X: IntArray,
    where: BoolArray | None,
    mean_S: FloatArray,
    square_S: FloatArray,
    largest_S: FloatArray,
) -> None:
    """See `_numpy.deviations`."""
    _call(_deviations, (x_X, seg_of_X, where, mean_S), (square_S, largest_S))


def centred(
    x_X: Array,
    seg_of_X: IntArray,
    where: BoolArray | None,
    mean_S: FloatArray,
    divisor_S: FloatArray,
    out_X: FloatArray,
) -> None:
    """See `_numpy.centred`."""
    _call(_centred, (x_X, seg_of_X, where, mean_S, divisor_S), (out_X,))


def _call(loop: Callable[..., Any], inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> Any:
    signature = (*(_type(x, readonly=True) for x in inputs), *(_type(x, readonly=False) for x in outputs))
    return _compile(loop, signature)(*inputs, *outputs)


def _type(x: Any, *, readonly: bool) -> Any:
    """numba's type of an argument; inputs are typed read-only, which accepts writable arrays as well."""
    if isinstance(x, np.ndarray):
        return _array_type(x.dtype, x.ndim, readonly)
    if isinstance(x, int):
        return types.int64
    return types.none if x is None else types.float64


@functools.cache  # ten microseconds each, and a small batch's whole call is a few hundred
def _array_type(dtype: np.dtype[Any], ndim: int, readonly: bool) -> Any:
    return types.Array(numba.from_dtype(dtype), ndim, "C", readonly=readonly)


@functools.cache
def _compile(loop: Callable[..., Any], signature: tuple[Any, ...]) -> Callable[..., Any]:
    # No "nnan", "ninf" or "reassoc": NaN must behave, and results must not depend on the vector width.
    build = functools.partial(numba.njit, signature, nogil=True, fastmath={"contract", "nsz"})
    try:
        return build(cache=True)(loop)
    except (RuntimeError, OSError):  # no folder for the cache, or a full disk
        return build()(loop)


@numba.njit(nogil=True)
def _selected(own):  # type: ignore[no-untyped-def]
    some = np.uint8(0)
    every = np.uint8(1)
    for i in range(own.size):
        some |= np.uint8(own[i])
        every &= np.uint8(own[i])
    return some != 0, every != 0


def _gae(reward, value, mask, bounds, last, gamma, factor, advantage, returns):  # type: ignore[no-untyped-def]
    count = 0
    shift = 0.0
    first = np.zeros(STRETCH)
    second = np.zeros(STRETCH)
    summed = bounds[0]
    for run in range(bounds.size - 1):
        lo = bounds[run]
        end = bounds[run + 1]
        acc = 0.0
        after = last[run]
        while end > lo:
            begin = lo
            if mask is not None:
                end = _skip(mask, lo, end)
                begin = _skip_selected(mask, lo, end)
            if begin < end:
                acc, after = _stretch(reward, value, begin, end, gamma, factor, acc, after, advantage, returns)
                if count == 0:
                    shift = np.float64(advantage[end - 1])
                count += end - begin
            end = begin
        # Apart from the recursion, inside which the sums take twice the time, but while its results are at hand.
        if returns is not None and (bounds[run + 1] - summed >= AT_HAND or run == bounds.size - 2):
            _moments(advantage, mask, shift, summed, bounds[run + 1], first, second)
            summed = bounds[run + 1]
    return count, shift, first.sum(), second.sum()


@numba.njit(nogil=True)
def _skip(mask, lo, end):  # type: ignore[no-untyped-def]
    """The end of the last selected stretch between the two; ``lo`` where there is none."""
    while end - lo >= STRETCH and not _selected(mask[end - STRETCH : end])[0]:
        end -= STRETCH
    while end > lo and not mask[end - 1]:
        end -= 1
    return end


@numba.njit(nogil=True)
def _skip_selected(mask, lo, end):  # type: ignore[no-untyped-def]
    """The begin of the selected stretch that ends there."""
    while end - lo >= STRETCH and _selected(mask[end - STRETCH : end])[1]:
        end -= STRETCH
    while end > lo and mask[end - 1]:
        end -= 1
    return end


@numba.njit(nogil=True, fastmath={"contract", "nsz"})
def _stretch(reward, value, lo, t, gamma, factor, acc, after, advantage, returns):  # type: ignore[no-untyped-def]
    # The plain recursion waits six cycles per position for its own last result. In a block of eight the local
    # scan is a tree of independent operations, and one multiply-add per block is left on the critical path.
    c1 = factor
    c2 = c1 * c1
    c3 = c2 * c1
    c4 = c2 * c2
    c5, c6, c7, c8 = c4 * c1, c4 * c2, c4 * c3, c4 * c4
    while t - lo >= 8:
        r = reward[t - 8 : t]
        if value is not None:
            v = value[t - 8 : t]
            v0, v1, v2, v3 = np.float64(v[0]), np.float64(v[1]), np.float64(v[2]), np.float64(v[3])
            v4, v5, v6, v7 = np.float64(v[4]), np.float64(v[5]), np.float64(v[6]), np.float64(v[7])
            d0, d1 = r[0] + gamma * v1 - v0, r[1] + gamma * v2 - v1
            d2, d3 = r[2] + gamma * v3 - v2, r[3] + gamma * v4 - v3
            d4, d5 = r[4] + gamma * v5 - v4, r[5] + gamma * v6 - v5
            d6, d7 = r[6] + gamma * v7 - v6, r[7] + gamma * after - v7
            after = v0
        else:
            d0, d1, d2, d3 = np.float64(r[0]), np.float64(r[1]), np.float64(r[2]), np.float64(r[3])
            d4, d5, d6, d7 = np.float64(r[4]), np.float64(r[5]), np.float64(r[6]), np.float64(r[7])
        d6 += c1 * d7
        d4 += c1 * d5
        d2 += c1 * d3
        d0 += c1 * d1
        d5 += c1 * d6
        d4 += c2 * d6
        d1 += c1 * d2
        d0 += c2 * d2
        d3 += c1 * d4
        d2 += c2 * d4
        d1 += c3 * d4
        d0 += c4 * d4
        d7 += c1 * acc
        d6 += c2 * acc
        d5 += c3 * acc
        d4 += c4 * acc
        d3 += c5 * acc
        d2 += c6 * acc
        d1 += c7 * acc
        d0 += c8 * acc
        acc = d0
        a = advantage[t - 8 : t]
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7] = d0, d1, d2, d3, d4, d5, d6, d7
        if returns is not None:
            g = returns[t - 8 : t]
            if value is not None:
                g[0], g[1], g[2], g[3] = d0 + v0, d1 + v1, d2 + v2, d3 + v3
                g[4], g[5], g[6], g[7] = d4 + v4, d5 + v5, d6 + v6, d7 + v7
            else:
                g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7] = d0, d1, d2, d3, d4, d5, d6, d7
        t -= 8
    while t > lo:
        t -= 1
        if value is not None:
            acc = (reward[t] + gamma * after - value[t]) + factor * acc
            after = np.float64(value[t])
        else:
            acc = reward[t] + factor * acc
        advantage[t] = acc
        if returns is not None:
            returns[t] = acc
            if value is not None:
                returns[t] = acc + value[t]
    return acc, after


@numba.njit(nogil=True, fastmath={"contract", "nsz"})
def _moments(x, mask, shift, begin, end, first, second):  # type: ignore[no-untyped-def]
    # A sum in many lanes: one after the other the additions wait for each other, and reordering them freely would make
    # the result depend on the vector width.
    for lo in range(begin, end, STRETCH):
        part = x[lo : min(lo + STRETCH, end)]
        if mask is None:
            for i in range(part.size):
                d = part[i] - shift
                first[i] += d
                second[i] += d * d
        else:
            own = mask[lo : min(lo + STRETCH, end)]
            if not _selected(own)[0]:
                continue
            for i in range(part.size):
                d = part[i] - shift  # read in any case: a read under a condition is not made a vector
                d = d if own[i] else 0.0
                first[i] += d
                second[i] += d * d


def _whiten(mask, mean, scale, x):  # type: ignore[no-untyped-def]
    for lo in range(0, x.size, STRETCH):
        part = x[lo : lo + STRETCH]
        if mask is None:
            for i in range(part.size):
                part[i] = (part[i] - mean) * scale
        else:
            own = mask[lo : lo + STRETCH]
            if not _selected(own)[0]:
                continue  # not touched: these pages may not be there yet
            for i in range(part.size):
                part[i] = (part[i] - mean) * scale if own[i] else part[i]


def _clear(mask, advantage, returns):  # type: ignore[no-untyped-def]
    for lo in range(0, mask.size, STRETCH):
        own = mask[lo : lo + STRETCH]
        some, every = _selected(own)
        for x in (advantage, returns):
            part = x[lo : lo + STRETCH]
            if not some:
                part[:] = 0.0
            elif not every:
                for i in range(part.size):
                    part[i] = part[i] if own[i] else 0.0


def _starts(seg, out):  # type: ignore[no-untyped-def]
    found = 0
    at = 1
    while at < seg.size:
        stop = min(at + 32, seg.size)
        differ = np.int64(1)
        if stop - at == 32:  # most stretches lie inside a run: one test for all of them
            part = seg[at - 1 : stop]
            differ = np.int64(0)
            for i in range(32):
                differ |= part[i] ^ part[i + 1]
        if differ != 0:
            for i in range(at, stop):
                if seg[i] != seg[i - 1]:
                    if found < out.size:
                        out[found] = i
                    found += 1
        at = stop
    return found


def _sums(x, seg, where, count, total):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        if where is None or where[i]:
            count[seg[i]] += 1
            total[seg[i]] += x[i]


def _deviations(x, seg, where, mean, square, largest):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        if where is None or where[i]:
            d = x[i] - mean[seg[i]]
            square[seg[i]] += d * d
            largest[seg[i]] = max(largest[seg[i]], abs(np.float64(x[i])))


def _centred(x, seg, where, mean, divisor, out):  # type: ignore[no-untyped-def]
    for i in range(x.size):
        if where is None or where[i]:
            out[i] = (x[i] - mean[seg[i]]) / divisor[seg[i]]
