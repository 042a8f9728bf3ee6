"""The prefix kernels in NumPy alone: what runs without numba, and what the compiled ones are compared with."""

from __future__ import annotations

from itertools import pairwise

from apportion.numerics.typing import IntArray

SELF = 2**62
"""What a sequence shares with itself: more than anything."""


SAMPLE = 64
"""Positions that rows are sorted by at first; a group goes on to the whole rows only where these tie."""


def lcp(
    token_X: IntArray, start_M: IntArray, stop_M: IntArray, bounds_G: IntArray, block_G: IntArray, out: IntArray
) -> None:
    """Common prefix lengths, one G × G block per group, written into ``out``.

    Sequences ``bounds_G[g]:bounds_G[g + 1]`` are group g, whose block starts at ``block_G[g]``. Once the rows are
    sorted, what two of them share is the least that any neighbours between them share, so a row is compared once. Any
    order will do that keeps equal beginnings together: rows are sorted by their bytes.
    """
    bounds, block = bounds_G.tolist(), block_G.tolist()
    every = [token_X[a:b] for a, b in zip(start_M.tolist(), stop_M.tolist(), strict=True)]
    for g in range(len(bounds) - 1):
        rows = every[bounds[g] : bounds[g + 1]]
        keys = [row[:SAMPLE].tobytes() for row in rows]
        if len(set(keys)) < len(keys):
            keys = [row.tobytes() for row in rows]
        order = sorted(range(len(rows)), key=keys.__getitem__)
        shared = [[SELF] * len(rows) for _ in rows]
        least = [_match(rows[a], rows[b]) for a, b in pairwise(order)]
        for k, a in enumerate(order):
            known = SELF
            for j in range(k, len(least)):
                known = min(known, least[j])
                b = order[j + 1]
                shared[a][b] = shared[b][a] = known
        out[block[g] : block[g + 1]] = [x for row in shared for x in row]


def _match(a: IntArray, b: IntArray) -> int:
    """First position where two sequences differ or one has ended; steps grow, most part at once."""
    stop = min(len(a), len(b))
    k, step = 0, SAMPLE
    while k < stop:
        end = min(k + step, stop)
        differs = a[k:end] != b[k:end]
        at = int(differs.argmax())
        if differs[at]:
            return k + at
        k, step = end, step * 16
    return stop
