"""Turn keys of any hashable kind into dense integer ids."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from apportion.errors import DataError
from apportion.numerics.typing import IntArray


def labels(*keys: Iterable[Hashable]) -> IntArray:
    """Ids 0, 1, 2, … for equal tuples of keys, in order of first appearance.

    Args:
        keys: one or more columns of equal length; ids are given to the tuples ``(k0[i], k1[i], …)``.

    Returns:
        (X,) int64. Equality is Python's: ``1 == 1.0 == True`` share an id.

    Raises:
        DataError: columns of different length, or a key that cannot be hashed.
    """
    first, *rest = keys
    out = _number(first)
    for key in rest:
        # Two columns of ids become one by arithmetic: no tuple is built, and no long text is hashed twice.
        ids = _number(key)
        if len(ids) != len(out):
            raise DataError(
                f"labels: columns of {len(out)} and {len(ids)} keys do not fit each other; give one of each per row"
            )
        out = _number_integers(out * (int(ids.max(initial=0)) + 1) + ids)
    return out


def _number(column: Iterable[Hashable]) -> IntArray:
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "iu" and column.ndim == 1:
            return _number_integers(column)
        column = column.tolist()
    rows: Sequence[Hashable] = column if isinstance(column, list | tuple) else list(column)
    id_of: defaultdict[Hashable, int] = defaultdict()
    id_of.default_factory = id_of.__len__  # a new key gets the number of keys before it, without leaving C
    try:
        return np.fromiter(map(id_of.__getitem__, rows), dtype=np.int64, count=len(rows))
    except TypeError as reason:
        for at, row in enumerate(rows):
            if not _hashable(row):
                kind = type(row).__name__
                raise DataError(
                    f"labels: key {at} is a {kind}, which cannot be compared by hash; give text, a number or a tuple"
                ) from reason
        raise


def _number_integers(x: IntArray) -> IntArray:
    n = len(x)
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    low, high = int(x.min()), int(x.max())
    if high - low >= 2 * n:  # too far apart for a table
        _, x = np.unique(x, return_inverse=True)
        low, high = 0, n
    at = x.astype(np.int64) - low
    table = np.empty(high - low + 1, dtype=np.int64)  # only entries of keys that occur are ever read
    order = np.arange(n)
    table[at[::-1]] = order[::-1]  # of equal keys the last write stays: the first appearance
    new = at[table[at] == order]
    table[new] = np.arange(len(new))
    out: IntArray = table[at]
    return out


def _hashable(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True
