"""The min-form of process rewards: weights that put a trajectory's credit on its worst step."""

from __future__ import annotations

import numpy as np

from apportion.errors import ConfigError
from apportion.numerics import kernels
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
    reward, seg = np.asarray(reward_X, dtype=np.float64), np.asarray(seg_of_X, dtype=np.int64)
    chosen = None if where is None or np.all(where) else np.asarray(where, dtype=bool)
    if chosen is not None:
        reward, seg = reward[chosen], seg[chosen]
    if form == "sum" or not len(reward):
        weighed = reward.copy()
    else:
        n = int(seg.max()) + 1
        weighed = np.empty(len(reward))
        kernel = kernels.pick(len(reward), "minform")
        reward, seg = np.ascontiguousarray(reward), np.ascontiguousarray(seg)
        if form == "strict":
            kernel.strict(reward, seg, n, weighed)
        else:
            kernel.soft(reward, seg, n, float(temperature), weighed)
    if chosen is None:
        return weighed
    out = np.zeros(len(chosen))
    out[chosen] = weighed
    return out


def grid_min(reward_X: Array, seg_of_X: IntArray, *, where: BoolArray, zeros: BoolArray) -> FloatArray:
    """The smallest reward from each position to the end of its run, where zeros may be in the way.

        out[x] = min( r[j] for j >= x in the run that has one,  0 if zeros[x] )

    It is what a scan over a padded grid of tokens gives, in which tokens without a reward hold a 0: never more than 0
    but at the very end.

    Args:
        reward_X: rewards; never read outside ``where``. seg_of_X: segments, each one contiguous run.
        where: positions that have a reward. zeros: positions at or behind which the grid holds a 0.

    Returns:
        (X,) float64; 0 where there is neither.

    Source: CJReinforce/PURE, branch verl, "strict min-form".
    """
    chosen = np.asarray(where, dtype=bool)
    least = np.where(chosen, np.asarray(reward_X, dtype=np.float64), np.inf)
    kernels.pick(len(least), "minform").to_come(least, np.ascontiguousarray(seg_of_X, dtype=np.int64))
    least[np.asarray(zeros, dtype=bool)] = np.minimum(least[zeros], 0.0)
    return np.where(np.isinf(least) & (least > 0), 0.0, least)
