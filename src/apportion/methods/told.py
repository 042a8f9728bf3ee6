"""What answers say in numbers, and which rollouts can be asked about at all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apportion.asks import Answer, Ask
from apportion.numerics import BoolArray, FloatArray
from apportion.units import Units


def askable_N(units: Units) -> BoolArray:
    """Rollouts that somebody else can score: with sampled tokens and without a breakdown, whether scored or not."""
    return units.batch.has_tokens_N & ~units.batch.failed_N


def numbers(answers: Sequence[Answer]) -> FloatArray:
    """The float that each answer holds, NaN where there is none."""
    return np.array([np.nan if answer.one is None else answer.one for answer in answers], dtype=np.float64)


def token_numbers(answer: Answer, size: int) -> FloatArray:
    """One number for each of so many tokens, NaN where there is no answer or it has another length."""
    told = answer.one
    if told is None or len(told) != size:
        return np.full(size, np.nan)
    return np.array(told, dtype=np.float64)


class Once:
    """Asks that a plan makes from several sides, each listed once.

    Attributes:
        asks: in order of first mention.
    """

    def __init__(self) -> None:
        self.asks: list[Ask] = []
        self._at: dict[Ask, int] = {}

    def add(self, ask: Ask) -> int:
        """Position of the ask in the list."""
        if ask not in self._at:
            self._at[ask] = len(self.asks)
            self.asks.append(ask)
        return self._at[ask]


def count(**notes: int | float) -> dict[str, int | float]:
    """Notes that are not zero."""
    return {name: value for name, value in notes.items() if value}
