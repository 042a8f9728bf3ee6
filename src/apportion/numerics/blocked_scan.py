"""The recursion ``out[t] = d[t] + f·out[t+1]`` in NumPy, many positions at a time.

A run is cut into blocks of 32 positions that are worked through side by side; what enters a block from the next one is
the same recursion over the block heads with factor ``f**32``. Only positive powers occur, so nothing overflows, and no
block spans two runs, so nothing leaks between them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from apportion.numerics.runs import copy_runs, ends
from apportion.numerics.typing import FloatArray, IntArray

BLOCK = 32
SHORT = 16
"""Runs up to this length go position by position over all runs at once: a block would be mostly filling."""
LONG = 256
"""Mean length of runs from which on each is turned into blocks by itself."""


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
    bounds = ends(-(-size_R // BLOCK))
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
            copy_runs(self.x_X, self.start_R, self.block.reshape(-1), self.first_R * BLOCK, self.size_R)
            np.copyto(self.side, self.block.T)
            return
        self.side[:, self.last_R] = 0.0
        for x, side in self._pairs():
            side[...] = x

    def out(self) -> None:
        """From ``side`` to ``x``."""
        if self.block is not None:
            np.copyto(self.block, self.side.T)
            copy_runs(self.block.reshape(-1), self.first_R * BLOCK, self.x_X, self.start_R, self.size_R)
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
