"""Memory for the numbers of a record batch, used again for the next one and by the next file.

The system clears fresh memory before it hands it out, which takes longer than filling it does. Who writes a file a
step, as a log of training does, pays that once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from apportion.numerics import Array

KEPT = 1 << 26
"""Bytes that are kept between files at most; more goes back to the system."""

_kept: list[Room] = []


class Room:
    """One array for each key, which has room for what was asked for last, or more."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def empty(self, key: str, size: int, dtype: type[np.generic]) -> Array:
        """``size`` numbers of any value, in the place of those that the key had before."""
        held = self._arrays.get(key)
        if held is None or held.dtype != dtype or len(held) < size:
            self._arrays.pop(key, None)
            held = self._arrays[key] = np.empty(size + size // 8, dtype)  # the next batch is a little larger or smaller
        return held[:size]

    def bytes(self) -> int:
        """What it takes."""
        return sum(array.nbytes for array in self._arrays.values())


@contextmanager
def kept_room() -> Iterator[Room]:
    """A room for the block alone, which the next block finds as it was left.

    Two blocks at a time, in two threads or one inside the other, have a room each, and one of them is kept.
    """
    try:
        room = _kept.pop()
    except IndexError:  # another thread may have been quicker
        room = Room()
    yield room
    if not _kept and room.bytes() <= KEPT:  # after an error somebody may still look at what is in it
        _kept.append(room)
