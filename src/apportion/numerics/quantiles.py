"""Quantiles by segment id."""

from __future__ import annotations

import numpy as np

from apportion.numerics.typing import Array, FloatArray, IntArray


def seg_quantile(x_X: Array, seg_of_X: IntArray, q: float, *, n: int | None = None) -> FloatArray:
    """The q-quantile of each segment, (n,), between the two nearest values in proportion; 0 for an empty segment.

    Args:
        x_X: finite values, any order.
        seg_of_X: segment of each value.
        q: share of the values below it, in [0, 1].
        n: number of segments, where trailing ones may be empty.
    """
    x = np.asarray(x_X, dtype=np.float64)
    size_S = np.bincount(seg_of_X, minlength=n or 0)
    ordered = x[np.lexsort((x, seg_of_X))]
    first_S = np.cumsum(size_S) - size_S
    out = np.zeros(len(size_S))
    full = size_S > 0
    place = q * (size_S[full] - 1)
    below = np.floor(place).astype(np.int64)
    low = ordered[first_S[full] + below]
    high = ordered[first_S[full] + np.minimum(below + 1, size_S[full] - 1)]
    out[full] = low + (high - low) * (place - below)
    return out
