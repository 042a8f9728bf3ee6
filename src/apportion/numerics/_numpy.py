"""The kernels in NumPy alone: what runs without numba, and what the compiled ones are compared with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apportion.numerics.blocked_scan import Room, scan
from apportion.numerics.runs import ends, gather, scatter, selected_before, spans_of
from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray

CHUNK = 2**17
"""Positions handled at a time, so that the temporaries stay in the cache."""

Moments = tuple[int, float, float, float]
"""count, shift, Σ(a − shift), Σ(a − shift)²: one pass, and safe against a mean far from zero."""


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
    """Advantages (and returns with their moments) of every run, written into the last two arguments.

        d[t] = r[t] + gamma·V[t+1] − V[t],   A[t] = d[t] + factor·A[t+1],   returns = A + V

    Masked-out positions are crossed without discount, never read and never written. Without values this is
    the discounted sum to go. ``bounds_R`` holds the start of each run and, at the end, the number of positions;
    ``last_R`` the value after each run.
    """
    count, shift, first_moment, second_moment = 0, 0.0, 0.0, 0.0
    room = Room()
    for a, b in _chunks(bounds_R):
        lo, hi = int(bounds_R[a]), int(bounds_R[b])
        run_R = bounds_R[a : b + 1] - lo
        last = last_R[a:b]
        spans = None
        if mask_X is not None and not (mask := mask_X[lo:hi]).all():
            spans = spans_of(mask)
            size_R = selected_before(run_R[1:], spans) - selected_before(run_R[:-1], spans)
            last = last[size_R > 0]
            run_R = ends(size_R[size_R > 0])
            if len(run_R) == 1:
                continue
        reward = gather(reward_X, lo, hi, spans)
        value = None if value_X is None else gather(value_X, lo, hi, spans)
        a_X = room.of("a", len(reward))
        a_X[:] = reward
        if value is not None:
            v_X = room.of("v", len(value))
            v_X[:] = value
            after_X = v_X[1:]
            if gamma != 1.0:
                after_X = room.of("after", len(value))[:-1]
                np.multiply(v_X[1:], gamma, out=after_X)
            end = run_R[1:] - 1
            reward_R = a_X[end]
            a_X[:-1] += after_X
            a_X[end] = reward_R + gamma * last
            a_X -= v_X
        scan(a_X, run_R, factor, room)
        scatter(a_X, advantage_X, lo, hi, spans)
        if returns_X is not None:
            if value is not None:
                v_X += a_X
            scatter(a_X if value is None else v_X, returns_X, lo, hi, spans)
            if count == 0:
                shift = float(a_X[-1])
            count += len(a_X)
            a_X -= shift
            first_moment += float(a_X.sum())
            second_moment += float(a_X @ a_X)
    return count, shift, first_moment, second_moment


def whiten(x_X: Array, mask_X: BoolArray | None, mean: float, scale: float) -> None:
    """In place: (x − mean)·scale where the mask is True; the rest stays as it is."""
    for lo in range(0, len(x_X), CHUNK):
        part = x_X[lo : lo + CHUNK]
        here = True if mask_X is None else mask_X[lo : lo + CHUNK]
        np.copyto(part, (part - np.float64(mean)) * scale, casting="same_kind", where=here)


def clear(mask_X: BoolArray, advantage_X: Array, returns_X: Array) -> None:
    """In place: 0 where the mask is False, which `gae` never writes."""
    for lo in range(0, len(mask_X), CHUNK):
        padding = ~mask_X[lo : lo + CHUNK]
        for x_X in (advantage_X, returns_X):
            np.copyto(x_X[lo : lo + CHUNK], 0.0, where=padding)


def starts(seg_of_X: IntArray) -> IntArray:
    """Positions, from 1 on, whose id differs from the one before."""
    return np.flatnonzero(seg_of_X[1:] != seg_of_X[:-1]) + 1


def sums(x_X: Array, seg_of_X: IntArray, where: BoolArray | None, count_S: IntArray, total_S: FloatArray) -> None:
    """Count and sum of the selected values of each segment, added to the last two arguments."""
    if where is not None:
        x_X, seg_of_X = x_X[where], seg_of_X[where]
    count_S += np.bincount(seg_of_X, minlength=len(count_S))
    total_S += np.bincount(seg_of_X, weights=x_X, minlength=len(total_S))


def deviations(
    x_X: Array,
    seg_of_X: IntArray,
    where: BoolArray | None,
    mean_S: FloatArray,
    square_S: FloatArray,
    largest_S: FloatArray,
) -> None:
    """Sum of squared deviations and largest magnitude of each segment, into the last two arguments."""
    if where is not None:
        x_X, seg_of_X = x_X[where], seg_of_X[where]
    d = x_X - mean_S[seg_of_X]
    square_S += np.bincount(seg_of_X, weights=d * d, minlength=len(square_S))
    np.maximum.at(largest_S, seg_of_X, np.abs(x_X))


def centred(
    x_X: Array,
    seg_of_X: IntArray,
    where: BoolArray | None,
    mean_S: FloatArray,
    divisor_S: FloatArray,
    out_X: FloatArray,
) -> None:
    """(x − mean) / divisor of its segment where selected; the rest of the output is left as it is."""
    if where is None:
        np.subtract(x_X, mean_S[seg_of_X], out=out_X)
        out_X /= divisor_S[seg_of_X]
        return
    seg = seg_of_X[where]
    out_X[where] = (x_X[where] - mean_S[seg]) / divisor_S[seg]


def _chunks(bounds_R: IntArray) -> Iterator[tuple[int, int]]:
    """Runs [a, b) of about CHUNK positions each; a longer run stands alone."""
    a, runs = 0, len(bounds_R) - 1
    while a < runs:
        b = int(np.searchsorted(bounds_R, bounds_R[a] + CHUNK, side="right")) - 1
        b = min(max(b, a + 1), runs)
        yield a, b
        a = b
