"""The prefix kernels compiled with numba, see `_numpy_prefix` for what each does."""

from __future__ import annotations

from apportion.numerics._numba import _call
from apportion.numerics._numpy_prefix import SELF
from apportion.numerics.typing import IntArray


def lcp(
    token_X: IntArray, start_M: IntArray, stop_M: IntArray, bounds_G: IntArray, block_G: IntArray, out: IntArray
) -> None:
    """See `_numpy_prefix.lcp`."""
    _call(_lcp, (token_X, start_M, stop_M, bounds_G, block_G), (out,))


def _lcp(token, start, stop, bounds, block, out):  # type: ignore[no-untyped-def]
    # Of the sequences compared so far, let `best` be the one that i shares most with, `deepest` positions. A further j
    # that shares less than that with `best` shares as much with i; one that shares more with it shares `deepest` with
    # i; only with one that shares exactly `deepest` may i share more, and the comparison goes on from there.
    for g in range(bounds.size - 1):
        lo = bounds[g]
        size = bounds[g + 1] - lo
        base = block[g]
        for i in range(size):
            out[base + i * size + i] = SELF
            best = -1
            deepest = 0
            for j in range(i):
                known = deepest if best < 0 else out[base + j * size + best]
                k = min(known, deepest)
                if known == deepest:
                    a = start[lo + i]
                    b = start[lo + j]
                    end = min(stop[lo + i] - a, stop[lo + j] - b)
                    while k < end and token[a + k] == token[b + k]:
                        k += 1
                out[base + i * size + j] = k
                out[base + j * size + i] = k
                if best < 0 or k > deepest:
                    best = j
                    deepest = k
