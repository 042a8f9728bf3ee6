"""Rollouts as columns of steps, without tokens and without a Python object per step: enough for most of credit.

A `LeanBatch` stands in for a `Batch` where a method compares steps, turns or episodes. What was not read is not
there: whoever reaches for it raises `NotLean`, and the same rows are then taken the ordinary way. So a number that is
made of lean columns is the number that the whole batch would have given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from apportion.numerics import BoolArray, IntArray

PER_TOKEN = ("logp_S", "ref_logp_S", "entropy_S")


class NotLean(Exception):
    """These rows, or this method, need more than lean columns; ``column`` is one that would help, if any."""

    def __init__(self, why: str, column: str = "") -> None:
        super().__init__(why)
        self.column = column


class Unread(np.ndarray[Any, Any]):
    """An array of which only the length is known."""

    def _used(self, *_: Any, **__: Any) -> NoReturn:
        raise NotLean("a column that was not read")

    __getitem__ = __iter__ = __array_ufunc__ = __array_function__ = _used


def unread(size: int) -> Any:
    """An `Unread` of this length; what NumPy's back doors find in it is no number."""
    nothing = np.empty(1, dtype=object)
    nothing[0] = object()
    return np.broadcast_to(nothing, (size,)).view(Unread)


class UnreadNames(Mapping[str, Any]):
    """Named arrays that were not read."""

    def __getitem__(self, name: str) -> NoReturn:
        raise NotLean(name)

    def __iter__(self) -> Iterator[str]:
        raise NotLean("names")

    def __len__(self) -> int:
        raise NotLean("names")


class LeanBatch:
    """What a cut needs of N trajectories with S steps; the fields of `Batch` under their names, and nothing else.

    Attributes:
        size_S: sampled tokens of each step; `Unread` in a text-only log, where they would be words.
        code_S: equal for equal states; None unless states were asked for.
        flat: the values of each sampled token, end to end, by name of the column of units.
        turns_told: every step says its turn.
    """

    # one pseudo-token for every step in which something was sampled
    ids_T: IntArray
    sampled_T: BoolArray
    step_of_T: IntArray
    logp_T = ref_logp_T = entropy_T = token_value_T = None
    columns_T: Mapping[str, Any] = {}
    reward_parts: Mapping[str, Any] = {}
    outcome_parts: Mapping[str, Any] = {}

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __len__(self) -> int:
        return len(self.group_of_N)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotLean(name)

    @property
    def valid_N(self) -> BoolArray:
        valid: BoolArray = self.scored_N & self.has_tokens_N & ~self.failed_N
        return valid

    def close(self) -> None:
        """After the cut nobody may take the pseudo-tokens for tokens."""
        self.__class__ = _Closed


class _Closed(LeanBatch):
    def __getattribute__(self, name: str) -> Any:
        if name.endswith("_T") or name in ("reward_parts", "outcome_parts"):
            raise NotLean(name)
        return super().__getattribute__(name)
