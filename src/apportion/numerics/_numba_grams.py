"""Marking grams compiled with numba: one look-up per token, and a comparison only where some gram begins."""

from __future__ import annotations

from apportion.numerics._numba import _call
from apportion.numerics.typing import Array, BoolArray, IntArray


def mark(
    ids_X: Array,
    bounds_R: IntArray,
    first_V: BoolArray,
    start_V: IntArray,
    offset_G: IntArray,
    flat: IntArray,
    mask_X: BoolArray,
    count_G: IntArray,
) -> None:
    """See `_numpy_grams.mark`."""
    _call(_mark, (ids_X, bounds_R, first_V, start_V, offset_G, flat), (mask_X, count_G))


def _mark(ids, bounds, first, start, offset, flat, mask, count):  # type: ignore[no-untyped-def]
    known = first.size
    for run in range(bounds.size - 1):
        hi = bounds[run + 1]
        for i in range(bounds[run], hi):
            v = ids[i]
            if v < 0 or v >= known or not first[v]:
                continue
            for g in range(start[v], start[v + 1]):
                lo = offset[g]
                size = offset[g + 1] - lo
                if i + size > hi:
                    continue
                k = 1
                while k < size and ids[i + k] == flat[lo + k]:
                    k += 1
                if k == size:
                    count[g] += 1
                    for j in range(size):
                        mask[i + j] = True
