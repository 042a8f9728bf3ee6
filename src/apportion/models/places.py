"""Places of long rows in windows that a model can take."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from apportion.models.rows import Rows
from apportion.numerics import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """K places in W windows.

    Attributes:
        windows: token ids of each window, at most ``longest``.
        window_K: window of each place, non-decreasing in the order of ``order_K``.
        before_K: the place inside its window, from 1 on.
        first_W: first entry of ``order_K`` of each window, and at the end K.
        order_K: places by window.
    """

    windows: tuple[IntArray, ...]
    window_K: IntArray
    before_K: IntArray
    first_W: IntArray
    order_K: IntArray

    def __len__(self) -> int:
        return len(self.window_K)

    def of(self, window: int) -> IntArray:
        """Places of a window."""
        return self.order_K[self.first_W[window] : self.first_W[window + 1]]


def places(rows: Rows, row_K: IntArray, at_K: IntArray, *, longest: int) -> Places:
    """Windows that hold the places; windows without a place are left out.

    A row that is too long is read in windows that overlap by half, and each place in the first that reaches it: what
    stands before a place is cut to between half and all of what the model takes.
    """
    stride = max(longest // 2, 1)
    over = np.maximum(at_K - longest, 0)
    part_K = -(-over // stride)  # the first window that reaches position at − 1
    key_K = row_K * (int(part_K.max(initial=0)) + 1) + part_K
    order_K = np.argsort(key_K, kind="stable")
    used, first = np.unique(key_K[order_K], return_index=True)
    window_K = np.searchsorted(used, key_K)
    base = int(part_K.max(initial=0)) + 1
    windows = []
    first_W = np.append(first, len(order_K))
    for key, (a, b) in zip(used.tolist(), pairwise(first_W.tolist()), strict=True):
        row, part = divmod(key, base)
        last = int(at_K[order_K[a:b]].max())
        windows.append(rows.ids[row][part * stride : last])
    return Places(
        tuple(windows),
        window_K.astype(np.int64),
        (at_K - part_K * stride).astype(np.int64),
        first_W.astype(np.int64),
        order_K.astype(np.int64),
    )
