"""The min-form compiled with numba; see `_numpy_minform` for what each function means."""

from __future__ import annotations

import numpy as np

from apportion.numerics._numba import _call
from apportion.numerics.typing import FloatArray, IntArray


def soft(reward_X: FloatArray, seg_of_X: IntArray, n: int, temperature: float, out_X: FloatArray) -> None:
    """See `_numpy_minform.soft`."""
    _call(_soft, (reward_X, seg_of_X, temperature), (np.full(n, np.inf), np.zeros(n), out_X))


def strict(reward_X: FloatArray, seg_of_X: IntArray, n: int, out_X: FloatArray) -> None:
    """See `_numpy_minform.strict`."""
    _call(_strict, (reward_X, seg_of_X), (np.full(n, np.inf), np.zeros(n), out_X))


def to_come(x_X: FloatArray, seg_of_X: IntArray) -> None:
    """See `_numpy_minform.to_come`."""
    _call(_to_come, (seg_of_X,), (x_X,))


def _soft(reward, seg, temperature, least, total, out):  # type: ignore[no-untyped-def]
    for x in range(reward.size):
        least[seg[x]] = min(least[seg[x]], reward[x])
    for x in range(reward.size):
        out[x] = np.exp((least[seg[x]] - reward[x]) / temperature)
        total[seg[x]] += out[x]
    for x in range(reward.size):
        out[x] *= reward[x] / total[seg[x]]


def _strict(reward, seg, least, many, out):  # type: ignore[no-untyped-def]
    for x in range(reward.size):
        if reward[x] < least[seg[x]]:
            least[seg[x]] = reward[x]
            many[seg[x]] = 0
        many[seg[x]] += reward[x] == least[seg[x]]
    for x in range(reward.size):
        out[x] = reward[x] / many[seg[x]] if reward[x] == least[seg[x]] else 0.0


def _to_come(seg, x):  # type: ignore[no-untyped-def]
    for t in range(x.size - 2, -1, -1):
        if seg[t] == seg[t + 1]:
            x[t] = min(x[t], x[t + 1])
