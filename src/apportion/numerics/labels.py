"""Turn keys of any hashable kind into dense integer ids."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from apportion.numerics.typing import IntArray


def labels(*keys: Iterable[Hashable]) -> IntArray:
    """Ids 0, 1, 2, … for equal tuples of keys, in order of first appearance.

    Args:
        keys: one or more columns of equal length; ids are given to the tuples ``(k0[i], k1[i], …)``.

    Returns:
        (X,) int64. Equality is Python's: ``1 == 1.0 == True`` share an id.
    """
    columns = [column.tolist() if isinstance(column, np.ndarray) else column for column in keys]
    seen: dict[Hashable, int] = {}
    rows: Iterable[Hashable] = columns[0] if len(columns) == 1 else zip(*columns, strict=True)
    return np.array([seen.setdefault(key, len(seen)) for key in rows], dtype=np.int64)
