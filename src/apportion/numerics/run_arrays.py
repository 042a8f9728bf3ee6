"""Arrays as recursions take them: runs by their bounds, flat or in rows, of one real type; checked where they enter."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.errors import ConfigError, DataError
from apportion.numerics import kernels
from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray


def bounds_of(seg: IntArray) -> IntArray:
    """Start of every run, and the number of positions at the end, (runs + 1,)."""
    if len(seg) == 0:
        return np.zeros(1, dtype=np.int64)
    inner = kernels.pick(len(seg)).starts(seg)
    bounds = np.empty(len(inner) + 2, dtype=np.int64)
    bounds[0], bounds[-1] = 0, len(seg)
    bounds[1:-1] = inner
    return bounds


def bounds_of_rows(x_NL: Array) -> IntArray:
    """The same where each row of a padded batch is a run."""
    rows, width = x_NL.shape
    index: IntArray = np.arange(rows + 1 if width else 1, dtype=np.int64)
    return np.multiply(index, width)


def real(x: Array) -> Array:
    """C-contiguous, float32 kept, everything else float64."""
    x = np.asarray(x)
    return np.ascontiguousarray(x, dtype=np.float32 if x.dtype == np.float32 else np.float64)


def same_kind(x: Array, y: Array) -> tuple[Array, Array]:
    """Both `real`; float64 unless both are float32."""
    x, y = real(x), real(y)
    if x.dtype != y.dtype:
        return x.astype(np.float64), y.astype(np.float64)
    return x, y


def mask_of(mask: Any) -> BoolArray:
    """C-contiguous flags."""
    return np.ascontiguousarray(mask, dtype=np.bool_)


def last_of(name: str, last: Array | None, runs: int) -> FloatArray:
    """The value behind each run: 0, one for all, or one for each.

    Raises:
        DataError: another number of values; ``name`` is the calling function.
    """
    if last is None:
        return np.zeros(runs)
    out = np.ascontiguousarray(last, dtype=np.float64)
    if out.shape == ():
        out = np.full(runs, float(out))
    if out.shape != (runs,):
        raise DataError(
            f"{name}: last_value has shape {out.shape}, but there are {runs} runs; give one value per run "
            f"(0 where it terminated)"
        )
    return out


def check_flat(name: str, **arrays: Array) -> None:
    """Refuse arrays that are not flat and equally long, by the names that the caller knows them by."""
    _check_alike(name, 1, "be flat and equally long", "give one entry per position", arrays)


def check_rows(name: str, **arrays: Array) -> None:
    """Refuse arrays that do not share one shape (rows, width)."""
    _check_alike(name, 2, "share one shape (rows, width)", "pad them alike", arrays)


def _check_alike(name: str, ndim: int, must: str, advice: str, arrays: dict[str, Array]) -> None:
    if len({x.shape for x in arrays.values()}) > 1 or any(x.ndim != ndim for x in arrays.values()):
        shapes = ", ".join(f"{key} {x.shape}" for key, x in arrays.items())
        raise DataError(f"{name}: the arrays must {must}, not {shapes}; {advice}")


def check_discount(name: str, **values: float) -> None:
    """Refuse a discount outside [0, 1]."""
    for key, value in values.items():
        if not 0.0 <= value <= 1.0:
            raise ConfigError(f"{name}: {key} must lie in [0, 1], got {value!r}; 1 means no decay")
