"""Marking grams compiled with numba: one look-up per token, and a comparison only where some gram begins."""

from __future__ import annotations

import numpy as np

from apportion.numerics._numba import _call
from apportion.numerics.typing import Array, BoolArray, IntArray

NONE = -1
"""In place of a second id, where a gram has one only or a run has ended; no gram holds it."""


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
    one_G = np.diff(offset_G) == 1
    second_G = np.where(one_G, NONE, flat[np.where(one_G, 0, offset_G[:-1] + 1)])
    _call(_mark, (ids_X, bounds_R, first_V, start_V, offset_G, flat, second_G), (mask_X, count_G))


def _mark(ids, bounds, first, start, offset, flat, second, mask, count):  # type: ignore[no-untyped-def]
    # Many grams may begin with one id: their second ids lie side by side, and nearly all are put aside by those.
    known = first.size
    for run in range(bounds.size - 1):
        hi = bounds[run + 1]
        for i in range(bounds[run], hi):
            v = ids[i]
            if v < 0 or v >= known or not first[v]:
                continue
            follows = ids[i + 1] if i + 1 < hi else NONE
            for g in range(start[v], start[v + 1]):
                if second[g] != follows and second[g] != NONE:
                    continue
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
