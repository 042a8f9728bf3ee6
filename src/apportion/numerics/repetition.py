"""How much a text repeats itself: the share of its substrings that have stood in it before."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from apportion.errors import DataError
from apportion.numerics import _numpy, _numpy_repetition, kernels
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
    module = _pick(sum(len(code) for code in codes))
    out = np.zeros(len(codes))
    for k, code in enumerate(codes):
        n = len(code)
        if n > 1:
            out[k] = module.repeated_substrings(code) / (n * (n + 1) / 2)
    return out


def _codes(k: int, sequence: str | Array) -> IntArray:
    """Symbols numbered from 0 in order of size."""
    if isinstance(sequence, str):
        symbols: Array = np.frombuffer(sequence.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    else:
        symbols = np.asarray(sequence)
        if symbols.ndim != 1 or (symbols.size and symbols.dtype.kind not in "iu"):
            raise DataError(f"repetition: sequence {k} is neither a text nor a flat array of ids; give one of these")
    return np.unique(symbols, return_inverse=True)[1].astype(np.int64)


def _pick(size: int) -> ModuleType:
    """The compiled kernels, or their NumPy twins, by the same rule as all kernels."""
    return _numpy_repetition if kernels.pick(size * COST) is _numpy else _compiled()


@functools.cache
def _compiled() -> ModuleType:
    return importlib.import_module("apportion.numerics._numba_repetition")
