"""The prefix kernels compiled with numba, see `_numpy_prefix` for what each does."""

from __future__ import annotations

import numpy as np

from apportion.numerics._numba import _call
from apportion.numerics._numpy_prefix import SELF
from apportion.numerics.typing import BoolArray, IntArray


def lcp(
    token_X: IntArray, start_M: IntArray, stop_M: IntArray, bounds_G: IntArray, block_G: IntArray, out: IntArray
) -> None:
    """See `_numpy_prefix.lcp`."""
    _call(_lcp, (token_X, start_M, stop_M, bounds_G, block_G), (out,))


def runs(
    order_M: IntArray,
    bounds_G: IntArray,
    block_G: IntArray,
    shared: IntArray,
    size_N: IntArray,
    chosen_N: BoolArray,
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """See `_numpy_prefix.runs`."""
    out = np.empty((4, len(shared)), dtype=np.int64)  # a sequence has at most one run for each member of its group
    found = _call(_runs, (order_M, bounds_G, block_G, shared, size_N, chosen_N), (out,))
    seq, at, node, members = out[:, :found].copy()
    return seq, at, node, members


def _lcp(token, start, stop, bounds, block, out):  # type: ignore[no-untyped-def]
    # Of the sequences compared so far, let `best` be the one that i shares most with, `deepest` positions. A further j
    # that shares less than that with `best` shares as much with i; one that shares more with it shares `deepest` with
    # i; only with one that shares exactly `deepest` may i share more, and the comparison goes on from there.
    for g in range(bounds.size - 1):
        lo = bounds[g]
        size = bounds[g + 1] - lo
        base = block[g]
        for i in range(size):
            out[base + i * size + i] = SELF
            best = -1
            deepest = 0
            for j in range(i):
                known = deepest if best < 0 else out[base + j * size + best]
                k = min(known, deepest)
                if known == deepest:
                    a = start[lo + i]
                    b = start[lo + j]
                    end = min(stop[lo + i] - a, stop[lo + j] - b)
                    while k < end and token[a + k] == token[b + k]:
                        k += 1
                out[base + i * size + j] = k
                out[base + j * size + i] = k
                if best < 0 or k > deepest:
                    best = j
                    deepest = k


def _runs(order, bounds, block, shared, size, chosen, out):  # type: ignore[no-untyped-def]
    # Runs of a sequence begin where a chosen sibling drops out. Sorted by the length that they share, the siblings
    # from some place on are those who still share; the lowest of them stands for the node, with the run's ordinal.
    n = order.size
    group = np.empty(n, dtype=np.int64)
    place = np.empty(n, dtype=np.int64)
    most = 0
    for g in range(bounds.size - 1):
        most = max(most, bounds[g + 1] - bounds[g])
        for m in range(bounds[g], bounds[g + 1]):
            group[order[m]] = g
            place[order[m]] = m - bounds[g]
    key = np.empty(most, dtype=np.int64)
    lowest = np.empty(most + 1, dtype=np.int64)
    offset = np.empty(n, dtype=np.int64)
    total = 0
    for i in range(n):
        offset[i] = total
        total += bounds[group[i] + 1] - bounds[group[i]]
    node = np.zeros(total, dtype=np.int64)  # one entry for each sequence that may stand for a node, and ordinal
    found = 0
    for i in range(n):
        g = group[i]
        lo = bounds[g]
        members = bounds[g + 1] - lo
        row = block[g] + place[i] * members
        k = 0
        for j in range(members):
            other = order[lo + j]
            if other != i and chosen[other] and shared[row + j] > 0:
                key[k] = shared[row + j] * n + other
                k += 1
        if k > 1:
            key[:k].sort()
        lowest[k] = i if chosen[i] else n
        for p in range(k - 1, -1, -1):
            lowest[p] = min(lowest[p + 1], key[p] % n)
        own = np.int64(chosen[i])
        ordinal = 0
        for p in range(k + 1):
            length = key[p - 1] // n if p > 0 else 0
            if length < size[i] and (p == k or p == 0 or key[p] // n != length):
                one = lowest[p] if p < k or own else i
                out[0, found] = i
                out[1, found] = length
                out[2, found] = offset[one] + ordinal
                out[3, found] = k - p + own
                node[offset[one] + ordinal] = 1
                ordinal += 1
                found += 1
    rank = 0
    for q in range(total):
        here = node[q]
        node[q] = rank
        rank += here
    for r in range(found):
        out[2, r] = node[out[2, r]]
    return found
