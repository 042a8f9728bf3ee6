"""Cutpoint partitions compiled with numba; see `_numpy_cutpoints` for what each function means.

Whether a token is below the limit is what a processor cannot predict, so the loops always store, and only counters
depend on it.
"""

from __future__ import annotations

import numpy as np

from apportion.numerics._numba import _call
from apportion.numerics.typing import Array, IntArray


def by_interval(logp_X: Array, bounds_R: IntArray, limit: float, interval: int) -> IntArray:
    """See `_numpy_cutpoints.by_interval`."""
    out = np.empty(len(logp_X) + 1, dtype=np.int64)
    found: int = _call(_by_interval, (logp_X, bounds_R, limit, interval), (out,))
    return out[:found].copy()


def by_count(logp_X: Array, bounds_R: IntArray, limit: float, count: int) -> IntArray:
    """See `_numpy_cutpoints.by_count`."""
    out = np.empty(len(logp_X) + 1, dtype=np.int64)
    found: int = _call(_by_count, (logp_X, bounds_R, limit, count), (out,))
    return out[:found].copy()


def _by_interval(logp, bounds, limit, interval, out):  # type: ignore[no-untyped-def]
    k = 0
    for run in range(bounds.size - 1):
        lo, hi = bounds[run], bounds[run + 1]
        if hi > lo:
            out[k] = lo
            k += 1
        since = 0
        for t in range(lo, hi):
            low = logp[t] < limit
            out[k] = t
            k += low & (since == 0) & (t > lo)
            since += low
            since = 0 if since == interval else since
    return k


def _by_count(logp, bounds, limit, count, out):  # type: ignore[no-untyped-def]
    k = 0
    for run in range(bounds.size - 1):
        lo, hi = bounds[run], bounds[run + 1]
        if hi > lo:
            out[k] = lo
            k += 1
        total = 0
        for t in range(lo, hi):
            total += logp[t] < limit
        parts = min(count, max(total, 1))
        short = total // parts
        extra = total % parts
        left = short + (extra > 0)  # cutpoints that the present part still takes
        for t in range(lo, hi):
            low = logp[t] < limit
            new = low & (left == 0)
            out[k] = t
            k += new
            extra -= new
            left = short + (extra > 0) if new else left
            left -= low
    return k
