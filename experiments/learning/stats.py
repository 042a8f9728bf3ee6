"""Statistics over a handful of seeds and several environments, after arXiv:2108.13264 (rliable), on SciPy.

    IQM     mean of the middle half of all scores of all environments: no single run decides it
    P(x>y)  chance that a run of x beats a run of y, ties half: Mann-Whitney's U / (n m), averaged over environments
    95%     percentile bootstrap that redraws seeds inside each environment (stratified)

rliable itself needs arch, statsmodels, pandas and seaborn for these three. SciPy has every piece: `bootstrap` draws
each of several samples on its own, which is the stratified bootstrap; `trim_mean` is the IQM; U is a sum of signs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

RESAMPLES = 5000

Array = np.ndarray[Any, np.dtype[np.float64]]

Interval = tuple[float, float, float]
"""Value, lower and upper end."""


def iqm(scores: Sequence[Sequence[float]]) -> Interval:
    """Interquartile mean over environments and seeds.

    Args:
        scores: one sequence of runs per environment, on one scale.
    """

    def of(*rows: Array, axis: int = -1) -> Array:
        return np.asarray(stats.trim_mean(np.concatenate(rows, axis=axis), 0.25, axis=axis))

    rows = [np.asarray(row, dtype=np.float64) for row in scores]
    return _with_interval(of, rows)


def improvement(x: Mapping[str, Sequence[float]], y: Mapping[str, Sequence[float]]) -> Interval:
    """Chance that a run of x scores higher than a run of y, averaged over the environments that both have."""
    both = [name for name in x if name in y]

    def of(*rows: Array, axis: int = -1) -> Array:
        wins = [
            np.mean(np.sign(a[..., :, None] - b[..., None, :]) / 2 + 0.5, axis=(-2, -1))
            for a, b in zip(rows[: len(both)], rows[len(both) :], strict=True)
        ]
        return np.asarray(np.mean(wins, axis=0))

    rows = [np.asarray(side[name], dtype=np.float64) for side in (x, y) for name in both]
    return _with_interval(of, rows)


def _with_interval(of: Callable[..., Array], rows: list[Array]) -> Interval:
    found = stats.bootstrap(
        rows, of, n_resamples=RESAMPLES, method="percentile", vectorized=True, rng=np.random.default_rng(0)
    )
    low, high = found.confidence_interval
    return float(of(*rows)), float(low), float(high)
