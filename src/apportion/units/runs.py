"""Stretches of tokens that belong to one unit: what makes work on T tokens cost as little as on the units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.numerics import BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """R stretches end to end over all tokens.

    Attributes:
        start_R: first token of each.
        size_R: its number of tokens, at least 1.
        unit_R: unit of all of them, -1 where the policy wrote nothing.
    """

    start_R: IntArray
    size_R: IntArray
    unit_R: IntArray

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Runs) and all(
            np.array_equal(mine, theirs)
            for mine, theirs in (
                (self.start_R, other.start_R),
                (self.size_R, other.size_R),
                (self.unit_R, other.unit_R),
            )
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def own_R(self) -> BoolArray:
        """Stretches that the policy wrote."""
        return self.unit_R >= 0

    def first_interrupted(self) -> int:
        """First unit that goes on after a later one has begun; -1 when there is none."""
        unit = self.unit_R[self.own_R]
        back = np.flatnonzero(unit[1:] < unit[:-1])
        return int(unit[back[0] + 1]) if len(back) else -1


def runs_of(unit_of_T: IntArray) -> Runs:
    """The longest stretches of equal units."""
    tokens = len(unit_of_T)
    if tokens == 0:
        none = np.zeros(0, dtype=np.int64)
        return Runs(none, none, none)
    change = np.flatnonzero(unit_of_T[1:] != unit_of_T[:-1])
    start = np.empty(len(change) + 1, dtype=np.int64)
    start[0] = 0
    np.add(change, 1, out=start[1:])
    return Runs(start, np.diff(start, append=tokens), unit_of_T[start])
