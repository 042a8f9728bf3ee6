"""Runs of positions one behind the other: where they begin, how they are copied, and those that a mask selects."""

from __future__ import annotations

import numpy as np

from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray


def ends(size_R: IntArray) -> IntArray:
    """0 and the running sum: where runs of these sizes start, and where the last one ends."""
    out = np.zeros(len(size_R) + 1, dtype=np.int64)
    np.cumsum(size_R, out=out[1:])
    return out


def copy_runs(source: Array, at_R: IntArray, target: Array, to_R: IntArray, size_R: IntArray) -> None:
    """target[to + k] = source[at + k] for k < size, run by run."""
    total = int(size_R.sum())
    if total >= 32 * len(size_R):  # long enough for a slice each
        for at, to, n in zip(at_R.tolist(), to_R.tolist(), size_R.tolist(), strict=True):
            target[to : to + n] = source[at : at + n]
        return
    k = np.arange(total) - np.repeat(np.cumsum(size_R) - size_R, size_R)
    target[k + np.repeat(to_R, size_R)] = source[k + np.repeat(at_R, size_R)]


Spans = tuple[IntArray, IntArray, IntArray]
"""The stretches that a mask selects: start of each, its start when all are put end to end, its size."""


def spans_of(mask: BoolArray) -> Spans:
    """The stretches of a mask, which is not empty."""
    edge = np.flatnonzero(mask[1:] != mask[:-1]) + 1
    edge = np.concatenate(([0] if mask[0] else [], edge, [len(mask)] if mask[-1] else [])).astype(np.int64)
    size = edge[1::2] - edge[::2]
    return edge[::2], np.cumsum(size) - size, size


def selected_before(at_R: IntArray, spans: Spans) -> IntArray:
    """How many selected positions lie before each of the given positions."""
    start, to, size = spans
    if len(start) == 0:
        return np.zeros_like(at_R)
    k = np.maximum(np.searchsorted(start, at_R, side="right") - 1, 0)
    inside: IntArray = np.clip(at_R - start[k], 0, size[k])
    return to[k] + inside


def gather(x_X: Array, lo: int, hi: int, spans: Spans | None) -> Array:
    """x[lo:hi], or its spans end to end."""
    if spans is None:
        return x_X[lo:hi]
    at, to, size = spans
    out = np.empty(int(size.sum()), x_X.dtype)
    copy_runs(x_X[lo:hi], at, out, to, size)
    return out


def scatter(x: FloatArray, out_X: Array, lo: int, hi: int, spans: Spans | None) -> None:
    """The inverse of `gather`: into out[lo:hi], or into its spans."""
    if spans is None:
        out_X[lo:hi] = x
    else:
        at, to, size = spans
        copy_runs(x, to, out_X[lo:hi], at, size)
