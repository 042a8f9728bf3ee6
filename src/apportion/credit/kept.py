"""What a `Credit` keeps of the numbers it is given: copies of its own, finite where known, parts that add up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from apportion.errors import DataError
from apportion.numerics import BoolArray, FloatArray

PARTS_TOLERANCE = 1e-9
"""Rounding allowed between the parts' sum and the credit, as a share of the largest of them."""
BLOCK = 1 << 14
"""Units that are looked at together: what is computed of them stays in the cache, and memory is passed once."""


def kept(
    advantage_S: FloatArray, parts: Mapping[str, FloatArray], known_S: BoolArray
) -> tuple[FloatArray, dict[str, FloatArray]]:
    """Read-only copies of the credit and of its parts, 0 where unknown.

    Raises:
        DataError: a number that is known is not finite; a part of another length; parts that miss the credit.
    """
    n = len(known_S)
    given = {name: np.asarray(part, dtype=np.float64) for name, part in parts.items()}
    for name, array in given.items():
        if array.shape != (n,):
            raise DataError(f"part {name!r} has shape {array.shape} for {n} units; give one entry per unit")
    told = [advantage_S, *given.values()]
    out = [np.empty(n) for _ in told]
    all_known = bool(known_S.all())
    gap, gap_at, largest = 0.0, 0, 0.0
    for lo in range(0, n, BLOCK):
        block = [x_S[lo : lo + BLOCK] for x_S in out]
        for k, mine in enumerate(block):
            theirs = told[k][lo : lo + BLOCK]
            mine[:] = theirs if all_known else np.where(known_S[lo : lo + BLOCK], theirs, 0.0)
            if not (good := np.isfinite(mine)).all():
                bad = int(good.argmin())
                raise DataError(_not_finite(list(given)[k - 1] if k else None, lo + bad, mine[bad]))
            # parts may be large and cancel, so their rounding is measured against them, not against the sum
            largest = max(largest, float(mine.max()), -float(mine.min()))
        if parts:
            miss = np.abs(sum(block[1:]) - block[0])
            worst = int(miss.argmax())
            if miss[worst] > gap:
                gap, gap_at = float(miss[worst]), lo + worst
    if gap > PARTS_TOLERANCE * largest:
        raise DataError(
            f"parts {', '.join(parts)} miss the advantage by {gap:.3g} at unit {gap_at}; parts must add up to it"
        )
    for array in out:
        array.flags.writeable = False
    return out[0], dict(zip(given, out[1:], strict=True))


def _not_finite(part: str | None, unit: int, value: float) -> str:
    if part is not None:
        return f"part {part!r} of unit {unit} is {value}; give a finite number"
    return f"credit of unit {unit} is {value}; give a finite number, or mark it unknown in known_S"
