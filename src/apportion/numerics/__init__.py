"""Arithmetic on flat arrays by segment id. Knows nothing of trajectories or tokens.

A *segment* is a set of positions that share an id in ``seg_of_X`` (0 .. n-1). Statistics accept ids in any
order; recursions (``to_go``, ``gae``) need each segment to be one contiguous run.
"""

from apportion.numerics.cutpoints import below_probability, cutpoint_starts
from apportion.numerics.grams import GramTable, Marks, gram_table, mark_grams
from apportion.numerics.labels import labels
from apportion.numerics.quantiles import seg_quantile
from apportion.numerics.scan import (
    AdvantagesAndReturns,
    gae,
    gae_padded,
    gae_returns_whitened,
    gae_returns_whitened_padded,
    starts_of,
    to_go,
    to_go_padded,
    to_go_whitened,
)
from apportion.numerics.segments import centre, seg_count, seg_mean, seg_std, seg_sum, spread_floor
from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray

__all__ = [
    "AdvantagesAndReturns",
    "Array",
    "BoolArray",
    "FloatArray",
    "GramTable",
    "IntArray",
    "Marks",
    "below_probability",
    "centre",
    "cutpoint_starts",
    "gae",
    "gae_padded",
    "gae_returns_whitened",
    "gae_returns_whitened_padded",
    "gram_table",
    "labels",
    "mark_grams",
    "seg_count",
    "seg_mean",
    "seg_quantile",
    "seg_std",
    "seg_sum",
    "spread_floor",
    "starts_of",
    "to_go",
    "to_go_padded",
    "to_go_whitened",
]
