"""Cutpoints: positions whose sampled token had a probability below a threshold, and partitions made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from apportion.errors import ConfigError, DataError
from apportion.numerics import kernels
from apportion.numerics.typing import Array, BoolArray, IntArray


def below_probability(logp_X: Array, rho: float) -> BoolArray:
    """True where exp(logp) < rho, strictly; logarithms are compared, so nothing underflows."""
    return np.asarray(logp_X < _limit(rho), dtype=np.bool_)


def cutpoint_starts(
    logp_X: Array,
    bounds_R: IntArray | Sequence[int],
    *,
    rho: float = 0.9,
    count: int | None = None,
    interval: int | None = None,
) -> IntArray:
    """Positions where segments start, when runs are cut at positions of low probability.

        U = { t : exp(logp[t]) < rho }, in every run

    With ``interval`` q the segments of a run start at its first position and at U[0], U[q], U[2q], … With ``count`` K
    they minimise Σ_k |U ∩ segment_k|² over partitions into min(K, max(|U|, 1)) segments: r = |U| mod K segments hold
    one cutpoint more than the others. Where that leaves a choice, the larger ones come first and a segment starts
    exactly at its first cutpoint.

    Args:
        logp_X: log-probability of each token, nats, the runs end to end.
        bounds_R: first position of each run, and the number of positions at the end, (runs + 1,).
        rho: the threshold, in (0, 1].
        count: segments per run. interval: cutpoints per segment. Exactly one of the two.

    Returns:
        Sorted positions, (segments,) int64; every run that is not empty has its first position among them.

    Source: arXiv:2505.23564, whose minimisation this solves; ``interval`` as in the authors' experiments.
    """
    name = "cutpoint_starts"
    given = {"count": count, "interval": interval}
    if (count is None) == (interval is None):
        raise ConfigError(f"{name} needs count or interval, one of the two; got count {count}, interval {interval}")
    for key, value in given.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1):
            raise ConfigError(f"{name}: {key} is {value!r}; give a whole number from 1 on")
    logp = np.ascontiguousarray(logp_X, dtype=np.float32 if getattr(logp_X, "dtype", 0) == np.float32 else np.float64)
    bounds = np.ascontiguousarray(bounds_R, dtype=np.int64)
    if logp.ndim != 1 or bounds.ndim != 1 or not len(bounds) or bounds[0] != 0 or bounds[-1] != len(logp):
        raise DataError(f"{name}: bounds_R must be flat, begin with 0 and end with the number of tokens, {logp.size}")
    if (np.diff(bounds) < 0).any():
        raise DataError(f"{name}: bounds_R must not decrease; give the first position of each run")
    kernel, limit = kernels.pick(len(logp), "cutpoints", exact=True), _limit(rho)
    out: IntArray
    if count is not None:
        out = kernel.by_count(logp, bounds, limit, int(count))
    else:
        out = kernel.by_interval(logp, bounds, limit, int(interval or 1))
    return out


def _limit(rho: float) -> float:
    if not 0.0 < rho <= 1.0:
        raise ConfigError(f"rho is {rho!r}; a probability threshold lies in (0, 1]")
    return math.log(rho)
