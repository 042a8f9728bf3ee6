"""Finding short sequences of ids (grams) in long ones, all grams in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apportion.errors import DataError
from apportion.numerics import kernels
from apportion.numerics.typing import Array, BoolArray, IntArray

LARGEST_ID = 2**24
"""The table has an entry for each possible first id; no vocabulary is this large."""


@dataclass(frozen=True, slots=True, eq=False)
class GramTable:
    """Grams sorted by their first id, with an index by it. Build it with `gram_table`.

    Attributes:
        first_V: True where some gram begins with that id.
        start_V: grams that begin with id v are ``start_V[v]`` up to ``start_V[v + 1]``.
        offset_G, flat: gram g is ``flat[offset_G[g] : offset_G[g + 1]]``.
        given_G: position of each gram among those that were given (the first of equals).
    """

    first_V: BoolArray
    start_V: IntArray
    offset_G: IntArray
    flat: IntArray
    given_G: IntArray

    def __len__(self) -> int:
        return len(self.given_G)


class Marks(NamedTuple):
    """Where grams are: positions that any of them covers, and places of each gram of the table."""

    mask_X: BoolArray
    places_G: IntArray


def gram_table(grams: Iterable[Sequence[int]]) -> GramTable:
    """The table of these grams; equal ones once.

    Raises:
        DataError: an empty gram, or an id that is none.
    """
    seen: dict[tuple[int, ...], int] = {}
    for k, gram in enumerate(grams):
        ids = tuple(gram)
        good = all(isinstance(i, int | np.integer) and not isinstance(i, bool) and 0 <= i < LARGEST_ID for i in ids)
        if not ids or not good:
            raise DataError(f"gram {k} is {list(ids)[:8]!r}; give one token id or more, whole numbers from 0 on")
        seen.setdefault(tuple(int(i) for i in ids), k)
    ordered = sorted(seen, key=lambda ids: ids[0])
    size = max((ids[0] for ids in ordered), default=-1) + 1
    heads = np.array([ids[0] for ids in ordered], dtype=np.int64)
    offset = np.cumsum([0, *(len(ids) for ids in ordered)]).astype(np.int64)
    return GramTable(
        first_V=np.bincount(heads, minlength=size)[:size] > 0,
        start_V=np.searchsorted(heads, np.arange(size + 1)).astype(np.int64),
        offset_G=offset,
        flat=np.array([i for ids in ordered for i in ids], dtype=np.int64),
        given_G=np.array([seen[ids] for ids in ordered], dtype=np.int64),
    )


def mark_grams(ids_X: Array, bounds_R: IntArray, table: GramTable) -> Marks:
    """Mark every position that lies in a place of a gram; overlapping places are a union.

    Args:
        ids_X: token ids, the runs end to end; ids that are in no gram may be anything.
        bounds_R: first position of each run, and the number of positions at the end. A gram lies inside one run.
        table: see `gram_table`.
    """
    ids = np.ascontiguousarray(ids_X, dtype=np.int32 if getattr(ids_X, "dtype", 0) == np.int32 else np.int64)
    bounds = np.ascontiguousarray(bounds_R, dtype=np.int64)
    if ids.ndim != 1 or bounds.ndim != 1 or not len(bounds) or bounds[0] != 0 or bounds[-1] != len(ids):
        raise DataError(f"mark_grams: bounds_R must be flat, begin with 0 and end with the number of ids, {ids.size}")
    marks = Marks(np.zeros(len(ids), dtype=np.bool_), np.zeros(len(table), dtype=np.int64))
    if len(table) and len(ids):
        kernel = kernels.pick(len(ids), "grams", exact=True)
        kernel.mark(ids, bounds, table.first_V, table.start_V, table.offset_G, table.flat, *marks)
    return marks
