"""The kernels in NumPy alone: what runs without numba, and what the compiled ones are compared with.

A recursion ``out[t] = d[t] + f·out[t+1]`` is cut into blocks of 32 positions that are worked through side by side;
what enters a block from the next one is the same recursion over the block heads with factor ``f**32``. Only positive
powers occur, so nothing overflows, and no block spans two runs, so nothing leaks between them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray

BLOCK = 32
SHORT = 16
"""Runs up to this length go position by position over all runs at once: a block would be mostly filling."""
LONG = 256
"""Mean length of runs from which on each is turned into blocks by itself."""
CHUNK = 2**17
"""Positions handled at a time, so that the temporaries stay in the cache."""

Moments = tuple[int, float, float, float]
"""count, shift, Σ(a − shift), Σ(a − shift)²: one pass, and safe against a mean far from zero."""


def gae(
    reward_X: Array,
    value_X: Array | None,
    mask_X: BoolArray | None,
    bounds_R: IntArray,
    last_R: FloatArray,
    gamma: float,
    factor: float,
    advantage_X: Array,
    returns_X: Array | None,
) -> Moments:
    """Advantages (and returns with their moments) of every run, written into the last two arguments.

        d[t] = r[t] + gamma·V[t+1] − V[t],   A[t] = d[t] + factor·A[t+1],   returns = A + V

    Masked-out positions are crossed without discount, never read and never written. Without values this is
    the discounted sum to go. ``bounds_R`` holds the start of each run and, at the end, the number of positions;
    ``last_R`` the value after each run.
    """
    count, shift, first_moment, second_moment = 0, 0.0, 0.0, 0.0
    room = Room()
    for a, b in _chunks(bounds_R):
        lo, hi = int(bounds_R[a]), int(bounds_R[b])
        run_R = bounds_R[a : b + 1] - lo
        last = last_R[a:b]
        spans = None
        if mask_X is not None and not (mask := mask_X[lo:hi]).all():
            spans = _spans(mask)
            size_R = _selected_before(run_R[1:], spans) - _selected_before(run_R[:-1], spans)
            last = last[size_R > 0]
            run_R = _ends(size_R[size_R > 0])
            if len(run_R) == 1:
                continue
        reward = _gather(reward_X, lo, hi, spans)
        value = None if value_X is None else _gather(value_X, lo, hi, spans)
        a_X = room.of("a", len(reward))
        a_X[:] = reward
        if value is not None:
            v_X = room.of("v", len(value))
            v_X[:] = value
            after_X = v_X[1:]
            if gamma != 1.0:
                after_X = room.of("after", len(value))[:-1]
                np.multiply(v_X[1:], gamma, out=after_X)
            end = run_R[1:] - 1
            reward_R = a_X[end]
            a_X[:-1] += after_X
            a_X[end] = reward_R + gamma * last
            a_X -= v_X
        scan(a_X, run_R, factor, room)
        _scatter(a_X, advantage_X, lo, hi, spans)
        if returns_X is not None:
            if value is not None:
                v_X += a_X
            _scatter(a_X if value is None else v_X, returns_X, lo, hi, spans)
            if count == 0:
                shift = float(a_X[-1])
            count += len(a_X)
            a_X -= shift
            first_moment += float(a_X.sum())
            second_moment += float(a_X @ a_X)
    return count, shift, first_moment, second_moment


def whiten(x_X: Array, mask_X: BoolArray | None, mean: float, scale: float) -> None:
    """In place: (x − mean)·scale where the mask is True; the rest stays as it is."""
    for lo in range(0, len(x_X), CHUNK):
        part = x_X[lo : lo + CHUNK]
        here = True if mask_X is None else mask_X[lo : lo + CHUNK]
        np.copyto(part, (part - np.float64(mean)) * scale, casting="same_kind", where=here)


def clear(mask_X: BoolArray, advantage_X: Array, returns_X: Array) -> None:
    """In place: 0 where the mask is False, which `gae` never writes."""
    for lo in range(0, len(mask_X), CHUNK):
        padding = ~mask_X[lo : lo + CHUNK]
        for x_X in (advantage_X, returns_X):
            np.copyto(x_X[lo : lo + CHUNK], 0.0, where=padding)


def starts(seg_of_X: IntArray) -> IntArray:
    """Positions, from 1 on, whose id differs from the one before."""
    return np.flatnonzero(seg_of_X[1:] != seg_of_X[:-1]) + 1


def sums(x_X: Array, seg_of_X: IntArray, where: BoolArray | None, count_S: IntArray, total_S: FloatArray) -> None:
    """Count and sum of the selected values of each segment, added to the last two arguments."""
    if where is not None:
        x_X, seg_of_X = x_X[where], seg_of_X[where]
    count_S += np.bincount(seg_of_X, minlength=len(count_S))
    total_S += np.bincount(seg_of_X, weights=x_X, minlength=len(total_S))


def deviations(
    x_X: Array,
    seg_of_X: IntArray,
    where: BoolArray | None,
    mean_S: FloatArray,
    square_S: FloatArray,
    largest_S: FloatArray,
) -> None:
    """Sum of squared deviations and largest magnitude of each segment, into the last two arguments."""
    if where is not None:
        x_X, seg_of_X = x_X[where], seg_of_X[where]
    d = x_X - mean_S[seg_of_X]
    square_S += np.bincount(seg_of_X, weights=d * d, minlength=len(square_S))
    np.maximum.at(largest_S, seg_of_X, np.abs(x_X))


def centred(
    x_X: Array,
    seg_of_X: IntArray,
    where: BoolArray | None,
    mean_S: FloatArray,
    divisor_S: FloatArray,
    out_X: FloatArray,
) -> None:
    """(x − mean) / divisor of its segment where selected; the rest of the output is left as it is."""
    if where is None:
        np.subtract(x_X, mean_S[seg_of_X], out=out_X)
        out_X /= divisor_S[seg_of_X]
        return
    seg = seg_of_X[where]
    out_X[where] = (x_X[where] - mean_S[seg]) / divisor_S[seg]


class Room:
    """Float64 scratch that is kept from one chunk to the next: pages that are given back must be cleared again."""

    def __init__(self) -> None:
        self._kept: dict[str, FloatArray] = {}

    def of(self, name: str, size: int) -> FloatArray:
        """So many numbers under a name, uninitialised; what was under this name before is gone."""
        kept = self._kept.get(name)
        if kept is None or len(kept) < size:
            kept = self._kept[name] = np.empty(size)
        return kept[:size]


def scan(x_X: FloatArray, bounds_R: IntArray, factor: float, room: Room | None = None) -> None:
    """In place: x[t] += factor·x[t+1] backwards inside each run. What is not finite stays inside its run."""
    if factor == 0.0 or len(x_X) == 0:
        return
    start_R, size_R = bounds_R[:-1], bounds_R[1:] - bounds_R[:-1]
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        long = size_R > SHORT
        if not long.all():
            _by_position(x_X, start_R[~long], size_R[~long], factor)
            start_R, size_R = start_R[long], size_R[long]
        if len(size_R):
            _by_block(x_X, start_R, size_R, factor, room or Room())


def _by_position(out_X: FloatArray, start_R: IntArray, size_R: IntArray, factor: float) -> None:
    """In place, one position at a time counted from the end, over all runs that are long enough."""
    order = np.argsort(-size_R, kind="stable")
    size = size_R[order]
    end = start_R[order] + size - 1
    alive = np.searchsorted(-size, -np.arange(1, int(size[0])), side="left")
    for k, n in enumerate(alive.tolist(), start=1):
        at = end[:n] - k
        out_X[at] += factor * out_X[at + 1]


def _by_block(x_X: FloatArray, start_R: IntArray, size_R: IntArray, factor: float, room: Room) -> None:
    """In place, in blocks of 32; the last block of a run is filled up with zeros.

    All blocks go one position at a time, side by side: what each adds up to, then, knowing what the next hands over,
    every value. A product of matrices would do the same, but rounds by the shape of the whole batch, and a run must
    get the same bits whatever stands beside it.
    """
    bounds = _ends(-(-size_R // BLOCK))
    first_R, last_R = bounds[:-1], bounds[1:] - 1
    blocks = int(bounds[-1])
    side = room.of("side", blocks * BLOCK).reshape(BLOCK, blocks)
    turn = _Turned(x_X, start_R, size_R, first_R, last_R, side, room)
    turn.in_()
    head = side[-1].copy()
    for k in range(BLOCK - 2, -1, -1):
        head *= factor
        head += side[k]
    if not np.isfinite(head).all():  # factor**32 may be 0, and then inf would not reach the blocks before
        fine = ~np.logical_or.reduceat(~np.isfinite(head), first_R)
        _by_position(x_X, start_R[~fine], size_R[~fine], factor)
        if fine.any():
            _by_block(x_X, start_R[fine], size_R[fine], factor, Room())
        return
    scan(head, bounds, factor**BLOCK)
    carry = np.append(head[1:], 0.0)  # what the next block of the same run hands over
    carry[last_R] = 0.0
    entering = np.empty_like(carry)
    for k in range(BLOCK - 1, -1, -1):
        np.multiply(carry, factor, out=entering)
        side[k] += entering
        carry = side[k]
    turn.out()


class _Turned:
    """Runs of ``x`` as columns of blocks side by side, there and back; what fills up the last block of a run is 0."""

    def __init__(
        self,
        x_X: FloatArray,
        start_R: IntArray,
        size_R: IntArray,
        first_R: IntArray,
        last_R: IntArray,
        side: FloatArray,
        room: Room,
    ) -> None:
        self.x_X, self.start_R, self.size_R, self.first_R, self.last_R = x_X, start_R, size_R, first_R, last_R
        self.side = side
        self.whole = x_X.size >= LONG * len(size_R)  # long enough to turn each by itself
        self.block = None if self.whole else room.of("block", side.size).reshape(side.shape[::-1])

    def in_(self) -> None:
        """From ``x`` to ``side``."""
        if self.block is not None:
            self.block[self.last_R] = 0.0
            _copy(self.x_X, self.start_R, self.block.reshape(-1), self.first_R * BLOCK, self.size_R)
            np.copyto(self.side, self.block.T)
            return
        self.side[:, self.last_R] = 0.0
        for x, side in self._pairs():
            side[...] = x

    def out(self) -> None:
        """From ``side`` to ``x``."""
        if self.block is not None:
            np.copyto(self.block, self.side.T)
            _copy(self.block.reshape(-1), self.first_R * BLOCK, self.x_X, self.start_R, self.size_R)
            return
        for x, side in self._pairs():
            x[...] = side

    def _pairs(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Views of the whole blocks of each run, and of what is left."""
        for start, size, first in zip(self.start_R.tolist(), self.size_R.tolist(), self.first_R.tolist(), strict=True):
            count, rest = divmod(size, BLOCK)
            middle = start + count * BLOCK
            yield self.x_X[start:middle].reshape(count, BLOCK).T, self.side[:, first : first + count]
            if rest:
                yield self.x_X[middle : middle + rest], self.side[:rest, first + count]


def _ends(size_R: IntArray) -> IntArray:
    """0 and the running sum: where runs of these sizes start, and where the last one ends."""
    ends = np.zeros(len(size_R) + 1, dtype=np.int64)
    np.cumsum(size_R, out=ends[1:])
    return ends


Spans = tuple[IntArray, IntArray, IntArray]
"""The stretches that a mask selects: start of each, its start when all are put end to end, its size."""


def _spans(mask: BoolArray) -> Spans:
    edge = np.flatnonzero(mask[1:] != mask[:-1]) + 1
    edge = np.concatenate(([0] if mask[0] else [], edge, [len(mask)] if mask[-1] else [])).astype(np.int64)
    size = edge[1::2] - edge[::2]
    return edge[::2], np.cumsum(size) - size, size


def _selected_before(at_R: IntArray, spans: Spans) -> IntArray:
    """How many selected positions lie before each of the given positions."""
    start, to, size = spans
    if len(start) == 0:
        return np.zeros_like(at_R)
    k = np.maximum(np.searchsorted(start, at_R, side="right") - 1, 0)
    inside: IntArray = np.clip(at_R - start[k], 0, size[k])
    return to[k] + inside


def _gather(x_X: Array, lo: int, hi: int, spans: Spans | None) -> Array:
    """x[lo:hi], or its spans end to end."""
    if spans is None:
        return x_X[lo:hi]
    at, to, size = spans
    out = np.empty(int(size.sum()), x_X.dtype)
    _copy(x_X[lo:hi], at, out, to, size)
    return out


def _scatter(x: FloatArray, out_X: Array, lo: int, hi: int, spans: Spans | None) -> None:
    if spans is None:
        out_X[lo:hi] = x
    else:
        at, to, size = spans
        _copy(x, to, out_X[lo:hi], at, size)


def _copy(source: Array, at_R: IntArray, target: Array, to_R: IntArray, size_R: IntArray) -> None:
    """target[to + k] = source[at + k] for k < size, run by run."""
    total = int(size_R.sum())
    if total >= 32 * len(size_R):  # long enough for a slice each
        for at, to, n in zip(at_R.tolist(), to_R.tolist(), size_R.tolist(), strict=True):
            target[to : to + n] = source[at : at + n]
        return
    k = np.arange(total) - np.repeat(np.cumsum(size_R) - size_R, size_R)
    target[k + np.repeat(to_R, size_R)] = source[k + np.repeat(at_R, size_R)]


def _chunks(bounds_R: IntArray) -> Iterator[tuple[int, int]]:
    """Runs [a, b) of about CHUNK positions each; a longer run stands alone."""
    a, runs = 0, len(bounds_R) - 1
    while a < runs:
        b = int(np.searchsorted(bounds_R, bounds_R[a] + CHUNK, side="right")) - 1
        b = min(max(b, a + 1), runs)
        yield a, b
        a = b
