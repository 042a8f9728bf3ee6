"""The min-form of process rewards: weights that put a trajectory's credit on its worst step."""

from __future__ import annotations

import numpy as np

from apportion.errors import ConfigError
from apportion.numerics.segments import seg_count, seg_sum
from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray


def min_form(
    reward_X: Array,
    seg_of_X: IntArray,
    *,
    temperature: float = 0.1,
    form: str = "soft",
    where: BoolArray | None = None,
) -> FloatArray:
    """Rewards re-weighed inside each segment, so that their sum is (nearly) the smallest of them.

        out[x] = softmax_seg(-r / temperature)[x] * r[x]       form="soft"
        out[x] = r[x] / (number of smallest) where r[x] is the smallest, else 0       form="strict", the limit at 0
        out[x] = r[x]                                          form="sum"

    Args:
        reward_X: process rewards; never read outside ``where``. seg_of_X: segment of each, any order.
        temperature: above 0, in the unit of the rewards.
        where: positions that have one.

    Returns:
        (X,) float64; 0 outside ``where``.

    Raises:
        ConfigError: an unknown form.

    Source: arXiv:2504.15275; it is not the suffix minimum.
    """
    if form not in ("soft", "strict", "sum"):
        raise ConfigError(f"min_form: form is {form!r}; give 'soft', 'strict' or 'sum'")
    chosen = np.ones(len(reward_X), dtype=bool) if where is None else np.asarray(where, dtype=bool)
    out = np.zeros(len(chosen))
    reward = np.asarray(reward_X, dtype=np.float64)[chosen]
    if not len(reward):
        return out
    if form == "sum":
        out[chosen] = reward
        return out
    seg = np.asarray(seg_of_X, dtype=np.int64)[chosen]
    n = int(seg.max()) + 1
    least = np.full(n, np.inf)
    np.minimum.at(least, seg, reward)
    if form == "strict":
        worst = reward == least[seg]
        out[chosen] = np.where(worst, reward / np.maximum(seg_count(seg, where=worst, n=n), 1)[seg], 0.0)
        return out
    weight = np.exp((least[seg] - reward) / temperature)
    out[chosen] = weight / seg_sum(weight, seg, n=n)[seg] * reward
    return out
