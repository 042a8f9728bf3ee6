"""Making segments larger: merge the smallest with a neighbour until all are large enough and few enough."""

from __future__ import annotations

import heapq

import numpy as np

from apportion.numerics import IntArray


def merge_small(start_S: IntArray, bounds_R: IntArray, least: int, most: int | None) -> IntArray:
    """Starts of the segments that are left.

    In every run the smallest segment (the first of equals) joins its smaller neighbour (the left of equals), while
    it has less than ``least`` tokens or the run more than ``most`` segments. One segment per run always stays.
    """
    edge_R = np.searchsorted(start_S, bounds_R)
    size_S = np.diff(np.append(start_S, bounds_R[-1]))
    count_R = np.diff(edge_R)
    least_R = np.full(len(count_R), np.iinfo(np.int64).max)
    filled = count_R > 0
    if filled.any():
        least_R[filled] = np.minimum.reduceat(size_S, edge_R[:-1][filled])
    touched = (count_R > 1) & ((least_R < least) | (most is not None and count_R > (most or 0)))
    keep = np.ones(len(start_S), dtype=bool)
    for run in np.flatnonzero(touched):
        lo, hi = int(edge_R[run]), int(edge_R[run + 1])
        keep[lo:hi] = _merge(size_S[lo:hi].tolist(), least, hi - lo if most is None else most)
    return start_S[keep]


def _merge(size: list[int], least: int, most: int) -> list[bool]:
    n = len(size)
    before, after = list(range(-1, n - 1)), list(range(1, n + 1))
    keep = [True] * n
    queue = [(length, k) for k, length in enumerate(size)]
    heapq.heapify(queue)
    while n > 1:
        length, k = heapq.heappop(queue)
        if not keep[k] or length != size[k]:
            continue  # it was merged, or has grown since
        if length >= least and n <= most:
            break
        left, right = before[k], after[k]
        into_left = right == len(keep) or (left >= 0 and size[left] <= size[right])
        first, second = (left, k) if into_left else (k, right)
        size[first] += size[second]
        keep[second] = False
        after[first] = after[second]
        if after[second] < len(keep):
            before[after[second]] = first
        n -= 1
        heapq.heappush(queue, (size[first], first))
    return keep
