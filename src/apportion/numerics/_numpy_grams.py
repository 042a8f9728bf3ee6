"""Marking grams in NumPy alone; the compiled twin is `_numba_grams`.

Few positions hold the first token of any gram, so the work is done on those, gram by gram.
"""

from __future__ import annotations

import numpy as np

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
    """Set the mask on every position that a gram covers, and count the places of each gram.

    A gram lies inside one run. Grams are sorted by their first id; those that begin with v are start_V[v] up to
    start_V[v + 1], and gram g is flat[offset_G[g] : offset_G[g + 1]].
    """
    known = (ids_X >= 0) & (ids_X < len(first_V))
    at = np.flatnonzero(known & first_V[np.where(known, ids_X, 0)])
    room = bounds_R[np.searchsorted(bounds_R, at, side="right")] - at  # positions left in the run
    order = np.argsort(ids_X[at], kind="stable")
    at, room = at[order], room[order]
    edge = np.searchsorted(ids_X[at], flat[offset_G[:-1]], side="left")
    end = np.searchsorted(ids_X[at], flat[offset_G[:-1]], side="right")
    for g in range(len(count_G)):
        gram = flat[offset_G[g] : offset_G[g + 1]]
        place = at[edge[g] : end[g]][room[edge[g] : end[g]] >= len(gram)]
        for k in range(1, len(gram)):
            place = place[ids_X[place + k] == gram[k]]
        count_G[g] = len(place)
        for k in range(len(gram) if len(place) else 0):
            mask_X[place + k] = True
