"""Cutpoint partitions compiled with numba; see `_numpy_cutpoints` for what each function means.

Whether a token is below the limit is what a processor cannot predict, so the search always stores, and only its counter
depends on it.
"""

from __future__ import annotations

import numba
import numpy as np

from apportion.numerics._numba import _call
from apportion.numerics.typing import Array, IntArray


def by_interval(logp_X: Array, bounds_R: IntArray, limit: float, interval: int) -> IntArray:
    """See `_numpy_cutpoints.by_interval`."""
    at, out = _room(bounds_R)
    found: int = _call(_by_interval, (logp_X, bounds_R, limit, interval), (at, out))
    return out[:found].copy()


def by_count(logp_X: Array, bounds_R: IntArray, limit: float, count: int) -> IntArray:
    """See `_numpy_cutpoints.by_count`."""
    at, out = _room(bounds_R)
    found: int = _call(_by_count, (logp_X, bounds_R, limit, count), (at, out))
    return out[:found].copy()


def _room(bounds_R: IntArray) -> tuple[IntArray, IntArray]:
    """For the positions of one run, and for all starts; a loop stores once more than it keeps."""
    longest = int(np.diff(bounds_R).max(initial=0))
    return np.empty(longest + 1, dtype=np.int64), np.empty(int(bounds_R[-1]) + 1, dtype=np.int64)


@numba.njit(nogil=True)
def _low(logp, lo, hi, limit, at):  # type: ignore[no-untyped-def]
    """Positions below the limit, into the front of ``at``; how many. Nothing waits but the counter."""
    found = 0
    for t in range(lo, hi):
        at[found] = t
        found += logp[t] < limit
    return found


def _by_interval(logp, bounds, limit, interval, at, out):  # type: ignore[no-untyped-def]
    k = 0
    for run in range(bounds.size - 1):
        lo, hi = bounds[run], bounds[run + 1]
        if hi > lo:
            out[k] = lo
            k += 1
        for j in range(0, _low(logp, lo, hi, limit, at), interval):
            out[k] = at[j]
            k += at[j] > lo
    return k


def _by_count(logp, bounds, limit, count, at, out):  # type: ignore[no-untyped-def]
    k = 0
    for run in range(bounds.size - 1):
        lo, hi = bounds[run], bounds[run + 1]
        if hi > lo:
            out[k] = lo
            k += 1
        total = _low(logp, lo, hi, limit, at)
        parts = min(count, max(total, 1))
        short = total // parts
        extra = total % parts
        j = 0
        for part in range(1, parts):  # the first part begins with the run
            j += short + (part <= extra)
            out[k] = at[j]
            k += 1
    return k
