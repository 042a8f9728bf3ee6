"""How much a text repeats itself: the share of its substrings that have stood in it before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apportion.errors import DataError
from apportion.numerics import kernels
from apportion.numerics.typing import Array, FloatArray, IntArray

COST = 64
"""One position costs as much as this many of an ordinary scan, so compiling pays that much earlier."""


def repetition(sequences: Sequence[str | Array]) -> FloatArray:
    """Repetition score of each text (by characters) or sequence of ids, in [0, 1).

        score = 1 - distinct substrings / (n (n + 1) / 2)
              = 2 · Σ common prefixes of neighbours in the sorted suffixes / (n (n + 1))

    0 where no symbol occurs twice, and for one symbol or none. Two verbatim copies of a sentence are above 0.2; a
    paraphrase is hardly above 0. PURE watches it to see a policy collapse into loops.

    Raises:
        DataError: something that is neither text nor a flat array of integers.

    Source: arXiv:2504.15275, monitors; CJReinforce/PURE `repeatness`.
    """
    codes = [_codes(k, sequence) for k, sequence in enumerate(sequences)]
    size_N = np.array([len(code) for code in codes], dtype=np.int64)
    bounds_N = np.concatenate(([0], np.cumsum(size_N)))
    repeated_N = np.zeros(len(codes), dtype=np.int64)
    if bounds_N[-1]:
        kernel = kernels.pick(COST * int(bounds_N[-1]), "repetition", exact=True)
        kernel.repeated_substrings(np.concatenate(codes), bounds_N, repeated_N)
    return repeated_N / np.maximum(size_N * (size_N + 1) / 2, 1.0)


def _codes(k: int, sequence: str | Array) -> IntArray:
    """Symbols numbered from 0 in order of size."""
    if isinstance(sequence, str):
        symbols: Array = np.frombuffer(sequence.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    else:
        symbols = np.asarray(sequence)
        if symbols.ndim != 1 or (symbols.size and symbols.dtype.kind not in "iu"):
            raise DataError(f"repetition: sequence {k} is neither a text nor a flat array of ids; give one of these")
    low, high = (int(symbols.min()), int(symbols.max())) if symbols.size else (0, 0)
    if low >= 0 and high < max(2**16, 4 * symbols.size):  # a table is some ten times as fast as sorting
        there = np.zeros(high + 1, dtype=np.int64)
        there[symbols] = 1
        return np.asarray((np.cumsum(there) - 1)[symbols], dtype=np.int64)
    return np.unique(symbols, return_inverse=True)[1].astype(np.int64)
