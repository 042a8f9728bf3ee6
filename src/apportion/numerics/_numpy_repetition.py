"""The repetition kernel in NumPy alone: what runs without numba, and what the compiled one is compared with."""

from __future__ import annotations

import numpy as np

from apportion.numerics.typing import IntArray


def repeated_substrings(code_X: IntArray, bounds_N: IntArray, out_N: IntArray) -> None:
    """Number of substrings of each text, by place, that have the same symbols as one that is sorted before them.

    Text i is ``code_X[bounds_N[i]:bounds_N[i + 1]]``; its codes begin at 0. The numbers are written into ``out_N``.
    """
    for i, (lo, hi) in enumerate(zip(bounds_N[:-1].tolist(), bounds_N[1:].tolist(), strict=True)):
        out_N[i] = _repeated(code_X[lo:hi]) if hi - lo > 1 else 0


def _repeated(code_X: IntArray) -> int:
    """Of one text. Suffixes are sorted by prefix doubling.

    The ranks of every round say whether two substrings of that power of two are equal, so the common prefix of two
    neighbours is put together from the largest power down.
    """
    n = len(code_X)
    rank = code_X.astype(np.int32)
    rounds = [rank]
    order = np.argsort(rank, kind="stable")
    size = 1
    while int(rank.max()) < n - 1:
        key = rank.astype(np.int64) * (n + 1)
        key[: n - size] += rank[size:] + 1  # a suffix that ends here sorts first
        order = np.argsort(key, kind="stable")
        ordered = key[order]
        rank = np.empty(n, dtype=np.int32)
        rank[order] = np.concatenate(([0], np.cumsum(ordered[1:] != ordered[:-1])))
        rounds.append(rank)
        size *= 2
    a, b = order[:-1].astype(np.int64), order[1:].astype(np.int64)
    shared = np.zeros(n - 1, dtype=np.int64)
    for k in range(len(rounds) - 1, -1, -1):
        inside = np.flatnonzero((a + shared < n) & (b + shared < n))
        at = shared[inside]
        equal = rounds[k][a[inside] + at] == rounds[k][b[inside] + at]
        shared[inside[equal]] += 2**k
    return int(shared.sum())
