"""`Steps`: the steps of one trajectory as a file gave them, each a `Step` only when somebody looks at it.

A batch of text needs columns, not objects, and most readers of a batch never ask for its steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any, overload

from apportion.data.trajectory import LARGEST, Step, Trajectory, step_of

TEXTS = ("observation", "state", "agent")
FLAGS = ("fresh", "terminated", "truncated", "failed")
NUMBERS = ("reward", "value")
_PLAIN = frozenset(("action", *TEXTS, *FLAGS, *NUMBERS))
_TEXT = {str, type(None)}
_NUMBER = {float, int, type(None)}


class Steps(Sequence[Step]):
    """A sequence of steps. Build it with `plain_steps`."""

    __slots__ = ("_columns", "_given", "_made", "names")

    def __init__(self, given: list[dict[str, Any]], columns: Mapping[str, Sequence[Any]]) -> None:
        self._given = given
        self._columns = columns
        self._made: tuple[Step, ...] = ()
        self.names = frozenset(columns)

    def column(self, name: str, default: Any) -> Sequence[Any]:
        """One field of every step, as `Step` would hold it; ``default`` where it was not given."""
        if name not in self.names:
            return [default] * len(self._given)
        if self._made:
            return list(map(attrgetter(name), self._made))
        values = self._columns[name]
        return [float(x) if type(x) is int else x for x in values] if name in NUMBERS else values

    @overload
    def __getitem__(self, at: int) -> Step: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Step, ...]: ...
    def __getitem__(self, at: int | slice) -> Step | tuple[Step, ...]:
        return self._steps()[at]

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps())

    def __len__(self) -> int:
        return len(self._given)

    def __repr__(self) -> str:
        return repr(self._steps())

    def _steps(self) -> tuple[Step, ...]:
        if not self._made:
            self._made = tuple(step_of(given) for given in self._given)
        return self._made


def plain_steps(given: Sequence[Any]) -> Steps | None:
    """Steps of text in which each field is just what it should be; None where `Step` and its check must look.

    What this accepts, ``check_trajectory`` accepts, and the steps are the same.
    """
    if not given or set(map(type, given)) != {dict}:
        return None
    names = frozenset().union(*given)
    if not names <= _PLAIN:
        return None
    columns = _transposed(given, names)
    for name, values in columns.items():
        kinds = set(map(type, values))
        if name in NUMBERS:
            told = [x for x in values if x is not None] if type(None) in kinds else values
            good = kinds <= _NUMBER and (int not in kinds or _small(told)) and math.isfinite(sum(told))
        elif name in FLAGS:
            good = kinds == {bool} and not (name in ("terminated", "truncated") and any(values[:-1]))
        else:
            good = kinds == {str} if name == "action" else kinds <= _TEXT
        if not good:
            return None
    return Steps(list(given), columns) if "action" in names else None


def _transposed(given: Sequence[dict[str, Any]], names: Collection[str]) -> dict[str, Sequence[Any]]:
    """Each field of all steps; where a step does not have it, what `Step` has then."""
    if len(names) > 1 and sum(map(len, given)) == len(names) * len(given):  # all have all, as logs do
        return dict(zip(names, zip(*map(itemgetter(*names), given), strict=True), strict=True))
    return {name: [one.get(name, False if name in FLAGS else None) for one in given] for name in names}


class Columns:
    """The fields of all steps of some rollouts, one after the other."""

    def __init__(self, rollouts: Sequence[Trajectory]) -> None:
        self._steps = [trajectory.steps for trajectory in rollouts]
        self._size = sum(map(len, self._steps))
        self._unmade = all(type(steps) is Steps for steps in self._steps)
        self._names = frozenset().union(*(steps.names for steps in self._steps if type(steps) is Steps))

    def __call__(self, name: str, default: Any = None) -> list[Any]:
        """One field of every step; ``default`` is what `Step` has where it was not given."""
        if self._unmade and name not in self._names:
            return [default] * self._size
        get = attrgetter(name)
        out: list[Any] = []
        for steps in self._steps:
            out += steps.column(name, default) if type(steps) is Steps else map(get, steps)
        return out


def _small(numbers: Sequence[float | int]) -> bool:
    return all(abs(x) < LARGEST for x in numbers if type(x) is int)
