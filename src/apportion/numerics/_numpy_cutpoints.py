"""Cutpoint partitions in NumPy alone; the compiled twin is `_numba_cutpoints`."""

from __future__ import annotations

import numpy as np

from apportion.numerics.typing import Array, IntArray


def by_interval(logp_X: Array, bounds_R: IntArray, limit: float, interval: int) -> IntArray:
    """Where segments start: at every run, and at its cutpoints 0, q, 2q, …"""
    at = np.flatnonzero(logp_X < limit)
    edge = np.searchsorted(at, bounds_R)
    many_R = -(-np.diff(edge) // interval)  # segments that the cutpoints of a run start
    first = np.repeat(edge[:-1] - interval * (np.cumsum(many_R) - many_R), many_R)
    return _with_runs(at[first + interval * np.arange(len(first))], bounds_R)


def by_count(logp_X: Array, bounds_R: IntArray, limit: float, count: int) -> IntArray:
    """Where segments start: at every run, and so that its cutpoints fall into ``count`` parts as equal as can be."""
    at, rank, total_R = _cutpoints(logp_X, bounds_R, limit)
    parts_R = np.minimum(count, np.maximum(total_R, 1))
    short = np.repeat(total_R // parts_R, total_R)
    big = np.repeat((total_R % parts_R) * (total_R // parts_R + 1), total_R)  # cutpoints in the longer, first parts
    opens = np.where(rank < big, rank % (short + 1) == 0, (rank - big) % np.maximum(short, 1) == 0)
    return _with_runs(at[opens & (rank > 0)], bounds_R)


def _cutpoints(logp_X: Array, bounds_R: IntArray, limit: float) -> tuple[IntArray, IntArray, IntArray]:
    """Positions below the limit, the place of each in its run, and how many each run has."""
    at = np.flatnonzero(logp_X < limit)
    edge = np.searchsorted(at, bounds_R)
    total_R = np.diff(edge)
    return at, np.arange(len(at)) - np.repeat(edge[:-1], total_R), total_R


def _with_runs(at: IntArray, bounds_R: IntArray) -> IntArray:
    starts = np.zeros(int(bounds_R[-1]), dtype=np.bool_)
    starts[bounds_R[:-1][bounds_R[1:] > bounds_R[:-1]]] = True
    starts[at] = True
    return np.flatnonzero(starts).astype(np.int64, copy=False)
