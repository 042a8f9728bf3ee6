"""95% intervals for a handful of independent runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from apportion.errors import DataError

# two-sided 97.5% quantiles of Student's t, by degrees of freedom; beyond 30 the normal value is within 4%
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def t_interval(values: Sequence[float], *, low: float = -math.inf, high: float = math.inf) -> tuple[float, float]:
    """Student's 95% interval for the mean of independent runs, cut at the possible range.

    Args:
        values: one number per run; at least two.
        low, high: the range that the quantity can have, 0 and 1 for a success rate.
    """
    x = np.asarray(values, dtype=np.float64)
    if len(x) < 2:
        raise DataError(f"an interval needs at least two runs, got {len(x)}; run more seeds")
    quantile = _T[len(x) - 2] if len(x) - 2 < len(_T) else 1.96
    half = quantile * float(x.std(ddof=1)) / math.sqrt(len(x))
    return max(low, float(x.mean()) - half), min(high, float(x.mean()) + half)
