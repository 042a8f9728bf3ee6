"""Means over seeds with Student's 95% interval: of one arm, and of the difference of two on the same seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from apportion.bench.intervals import t_interval


def interval(values: Sequence[float], *, digits: int | None = None, share: bool = False) -> list[float]:
    """Mean, and the two ends of Student's 95% interval.

    Args:
        values: one number a seed, two at least.
        digits: to round to; None leaves them as they are.
        share: whether the quantity lies between 0 and 1, where the interval is then cut.

    Raises:
        DataError: fewer than two numbers.
    """
    low, high = (0.0, 1.0) if share else (-math.inf, math.inf)
    three = [float(np.mean(values)), *t_interval(values, low=low, high=high)]
    return three if digits is None else [round(x, digits) for x in three]


def paired(mine: Sequence[float], others: Sequence[float], *, digits: int | None = None) -> list[float]:
    """`interval` of mine less others', seed by seed."""
    return interval([a - b for a, b in zip(mine, others, strict=True)], digits=digits)


def side(three: Sequence[float], threshold: float = 0.0) -> int:
    """Which side of a threshold an interval lies on: 1 above, -1 below, 0 where it reaches it."""
    _, low, high = three
    return int(low > threshold) - int(high < threshold)
