"""The prefix kernels in NumPy alone: what runs without numba, and what the compiled ones are compared with."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from apportion.numerics.typing import BoolArray, IntArray

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
        heads = keys = [row[:SAMPLE].tobytes() for row in rows]
        if len(set(keys)) < len(keys):
            keys = [row.tobytes() for row in rows]
        order = sorted(range(len(rows)), key=keys.__getitem__)
        shared = [[SELF] * len(rows) for _ in rows]
        least = [_match(rows[a], rows[b], SAMPLE if heads[a] == heads[b] else 0) for a, b in pairwise(order)]
        for k, a in enumerate(order):
            known = SELF
            for j in range(k, len(least)):
                known = min(known, least[j])
                b = order[j + 1]
                shared[a][b] = shared[b][a] = known
        out[block[g] : block[g + 1]] = [x for row in shared for x in row]


def pairs(
    order_M: IntArray, bounds_G: IntArray, block_G: IntArray, shared: IntArray
) -> tuple[IntArray, IntArray, IntArray]:
    """The blocks that `lcp` fills as (first, second, shared length), without the diagonals.

    ``order_M`` holds the sequences by group, as the blocks have them.
    """
    size = np.diff(bounds_G)
    row = np.repeat(np.arange(len(order_M)), np.repeat(size, size))
    column = np.arange(len(shared)) - np.repeat(block_G[:-1], size * size)
    column = column % np.repeat(size, size * size) + np.repeat(bounds_G[:-1], size * size)
    pair = row != column
    return order_M[row[pair]], order_M[column[pair]], shared[pair]


def runs(
    order_M: IntArray,
    bounds_G: IntArray,
    block_G: IntArray,
    shared: IntArray,
    size_N: IntArray,
    chosen_N: BoolArray,
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Sequence, first position inside it, node and number of sharers of every run, see `prefix.Runs`."""
    n = len(size_N)
    first, second, length = pairs(order_M, bounds_G, block_G, shared)
    use = chosen_N[second] & (length > 0)
    first, second, length = first[use], second[use], length[use]

    width = int(size_N.max(initial=0)) + 1
    key = first * width + length
    order = np.argsort(key, kind="stable")
    key, first, second = key[order], first[order], second[order]
    # the lowest sharer among the pairs of one sequence from here on: going backwards, a new sequence starts lower
    lowest = np.minimum.accumulate((second + first * n)[::-1])[::-1] - first * n

    begins = np.flatnonzero(size_N) * width
    parts = key[key % width < size_N[first]]
    edge = np.sort(np.concatenate((begins, parts)))
    edge = edge[np.append(True, edge[1:] != edge[:-1])[: len(edge)]]  # np.unique hashes first, and is slower
    seq, at = edge // width, edge % width
    from_P = np.searchsorted(key, edge, side="right")
    to_P = np.searchsorted(key, (seq + 1) * width, side="left")
    sharers = to_P - from_P
    lowest = np.append(lowest, n)
    one = np.where(sharers > 0, lowest[np.minimum(from_P, len(lowest) - 1)], n)
    one = np.where(chosen_N[seq], np.minimum(one, seq), np.where(sharers > 0, one, seq))
    ordinal = np.arange(len(seq)) - np.searchsorted(seq, seq)
    node = np.unique(one * (int(ordinal.max(initial=0)) + 1) + ordinal, return_inverse=True)[1]
    return seq, at, node.astype(np.int64), sharers + chosen_N[seq]


def _match(a: IntArray, b: IntArray, known: int) -> int:
    """First position where two sequences differ or one has ended, from ``known`` on; steps grow, most part at once."""
    stop = min(len(a), len(b))
    k, step = known, 16 * SAMPLE if known else SAMPLE
    while k < stop:
        end = min(k + step, stop)
        differs = a[k:end] != b[k:end]
        at = int(differs.argmax())
        if differs[at]:
            return k + at
        k, step = end, step * 16
    return stop
