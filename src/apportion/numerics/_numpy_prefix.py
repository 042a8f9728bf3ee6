"""The prefix kernels in NumPy alone: what runs without numba, and what the compiled ones are compared with."""

from __future__ import annotations

import numpy as np

from apportion.numerics.typing import FloatArray, IntArray

SELF = 2**62
"""What a sequence shares with itself: more than anything."""


def lcp(
    token_X: IntArray, start_M: IntArray, stop_M: IntArray, bounds_G: IntArray, block_G: IntArray, out: IntArray
) -> None:
    """Common prefix lengths, one G × G block per group, written into ``out``.

    Sequences ``bounds_G[g]:bounds_G[g + 1]`` are group g, whose block starts at ``block_G[g]``. Of the sequences
    compared so far, let b be the one that i shares most with, D positions. A further j that shares less than D with b
    shares as much with i; one that shares more with b shares D with i; only with one that shares exactly D may i share
    more, and the comparison goes on from there. So i pays for its longest common prefix once.
    """
    for g in range(len(bounds_G) - 1):
        lo, hi = int(bounds_G[g]), int(bounds_G[g + 1])
        rows = [token_X[start_M[m] : stop_M[m]] for m in range(lo, hi)]
        shared = [[SELF] * len(rows) for _ in rows]
        for i in range(1, len(rows)):
            best, deepest = 0, _match(rows[i], rows[0], 0)
            shared[i][0] = shared[0][i] = deepest
            for j in range(1, i):
                known = shared[j][best]
                k = _match(rows[i], rows[j], deepest) if known == deepest else min(known, deepest)
                shared[i][j] = shared[j][i] = k
                if k > deepest:
                    best, deepest = j, k
        out[block_G[g] : block_G[g + 1]] = np.array(shared, dtype=np.int64).reshape(-1)


def _match(a: IntArray, b: IntArray, k: int) -> int:
    """First position from k on where two sequences differ or one has ended; steps grow, most part at once."""
    stop = min(len(a), len(b))
    step = 16
    while k < stop:
        end = min(k + step, stop)
        differs = a[k:end] != b[k:end]
        at = int(differs.argmax())
        if differs[at]:
            return k + at
        k, step = end, step * 4
    return stop


def fill(start_R: IntArray, stop_R: IntArray, value_R: FloatArray, out_X: FloatArray) -> None:
    """out[start:stop] = value, run by run."""
    if len(start_R) * 32 < int((stop_R - start_R).sum()):
        for start, stop, value in zip(start_R.tolist(), stop_R.tolist(), value_R.tolist(), strict=True):
            out_X[start:stop] = value
        return
    size = stop_R - start_R
    at = np.arange(int(size.sum())) + np.repeat(start_R - (np.cumsum(size) - size), size)
    out_X[at] = np.repeat(value_R, size)
