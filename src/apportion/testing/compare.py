"""Comparing credit trajectory by trajectory, with sentences that say where two results differ."""

from __future__ import annotations

import numpy as np

from apportion.credit import Credit
from apportion.numerics import FloatArray

TOLERANCE = 1e-9
"""Difference that rounding may make, as a share of the largest credit in the batch."""


def pieces_of(credit: Credit) -> list[FloatArray]:
    """Advantage and knowledge (1 or 0) of each trajectory's units: one (units, 2) array per trajectory."""
    units = credit.units
    both = np.stack((credit.advantage_S, np.asarray(credit.known_S, dtype=np.float64)), axis=1)
    return [both[units.traj_of_S == n] for n in range(len(units.group_of_N))]


def assert_same(got: list[FloatArray], want: list[FloatArray], when: str) -> None:
    """Equal credit and equal knowledge, unit by unit."""
    assert len(got) == len(want)
    largest = max((float(np.abs(piece).max(initial=0.0)) for piece in want), default=0.0)
    for n, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.shape == b.shape, f"trajectory {n} has {len(b)} units, {when} {len(a)}"
        off = np.abs(a - b).max(axis=1, initial=0.0) > TOLERANCE * max(largest, 1e-300)
        if off.any():
            s = int(np.argmax(off))
            raise AssertionError(f"unit {s} of trajectory {n} has credit {_say(b[s])}, {when} {_say(a[s])}")


def _say(row: FloatArray) -> str:
    return f"{row[0]:.6g}" if row[1] else "unknown"


def assert_close(got: FloatArray, want: FloatArray, what: str, size: float = 0.0) -> None:
    """Equal up to the rounding of numbers as large as these, or as ``size``."""
    gap = np.abs(got - want)
    limit = TOLERANCE * max(float(np.abs(want).max(initial=0.0)), float(np.abs(got).max(initial=0.0)), size, 1e-300)
    if (gap > limit).any():
        s = int(gap.argmax())
        raise AssertionError(f"{what} at {s}: {got[s]:.6g}, expected {want[s]:.6g}")
