"""The memory bus: how long the same bytes take when nothing is computed that has to wait for anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from apportion.numerics import Array

CHUNK = 2**14
"""Elements at a time, so that a value read once is still in the cache when it is needed again."""


def traffic(inputs: Sequence[Array], dtypes: Sequence[type]) -> Callable[[], list[Array]]:
    """A call that reads every input once and fills one fresh array of each dtype.

    Fresh, because a function that returns arrays has to get the memory somewhere; the pages are part of the cost.
    """
    flat = [x.reshape(-1) for x in inputs]
    n = len(flat[0])

    def run() -> list[Array]:
        out: list[Array] = [np.empty(n, dtype) for dtype in dtypes]
        for lo in range(0, n, CHUNK):
            part = slice(lo, lo + CHUNK)
            first, *more = flat
            np.copyto(out[0][part], first[part], casting="unsafe")
            for x in more:
                if x.dtype == np.bool_:
                    np.count_nonzero(x[part])
                else:
                    np.add(out[0][part], x[part], out=out[0][part], casting="unsafe")
            for y in out[1:]:
                np.copyto(y[part], out[0][part], casting="unsafe")
        return out

    return run


def fill(n: int, dtype: type) -> Callable[[], Array]:
    """A call that fills one fresh array."""

    def run() -> Array:
        out: Array = np.empty(n, dtype)
        out.fill(1)
        return out

    return run
