"""Where values of states come from: what has to be asked for a source, and what the answers say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.asks import Answer, Ask, Continue, Judge, Value
from apportion.errors import ConfigError, DataError
from apportion.methods.continuations import mean_or_nan, returns_of
from apportion.methods.moments import starts
from apportion.numerics import Array, BoolArray, FloatArray
from apportion.units import Units

SOURCES = "'data', 'samples:K', 'model' or 'judge:TEMPLATE'"


@dataclass(frozen=True, slots=True)
class Source:
    """One source of values.

    Attributes:
        asks: what it has to ask.
        read: values of the units from the answers, (S,), NaN where unknown.
        samples: how many returns each value is the mean of; 0: of none.
    """

    asks: Sequence[Ask]
    read: Callable[[Sequence[Answer]], FloatArray]
    samples: int = 0


def source_of(units: Units, chosen_S: BoolArray, name: str, source: Any) -> Source:
    """A source by its name, or values that are given.

    Args:
        units: steps, segments or tokens. chosen_S: those that are measured.
        name: for messages. source: as `value_quality` takes it.

    Raises:
        ConfigError: there is none of that name. DataError: the data have no values, or not one for each unit.
    """
    if not isinstance(source, str):
        values = given(units, source, name)
        return Source((), lambda answers: values)
    kind, _, detail = source.partition(":")
    if source == "data":
        units.require("value_quality", "value_S")
        return Source((), lambda answers: np.asarray(units.value_S, dtype=np.float64))
    if kind == "samples" and detail.isdecimal() and int(detail) > 0:
        return sampled(units, chosen_S, int(detail), tag="")
    if source == "model":
        return _told(units, chosen_S)
    if kind == "judge" and detail:
        return _judged(units, chosen_S, detail)
    raise ConfigError(f"value_quality: no source of values is named {source!r}; there are {SOURCES}")


def sampled(units: Units, chosen_S: BoolArray, k: int, *, tag: str) -> Source:
    """The mean return of ``k`` continuations; another ``tag``, other continuations."""
    place_S, asked = starts(units), np.flatnonzero(chosen_S).tolist()

    def read(answers: Sequence[Answer]) -> FloatArray:
        return _at(units, asked, [mean_or_nan(returns_of(answer)) for answer in answers])

    return Source([Continue(place_S[s], k, tag=tag) for s in asked], read, k)


def given(units: Units, values: Array, name: str) -> FloatArray:
    """Values of the user's own."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (len(units),):
        raise DataError(
            f"value_quality: {name} has shape {array.shape} for {len(units)} units; give one value per unit"
        )
    return array


def _told(units: Units, chosen_S: BoolArray) -> Source:
    """What a value model says of each state."""
    place_S, asked = starts(units), np.flatnonzero(chosen_S).tolist()

    def read(answers: Sequence[Answer]) -> FloatArray:
        return _at(units, asked, [mean_or_nan(list(answer.samples)) for answer in answers])

    return Source([Value(place_S[s]) for s in asked], read)


def _judged(units: Units, chosen_S: BoolArray, template: str) -> Source:
    """The mean verdict on each unit, where there is one."""
    place_S = starts(units)
    asked = [np.flatnonzero(units.traj_of_S == n).tolist() for n in np.unique(units.traj_of_S[chosen_S]).tolist()]

    def read(answers: Sequence[Answer]) -> FloatArray:
        out = np.full(len(units), np.nan)
        for own, answer in zip(asked, answers, strict=True):
            for j, s in enumerate(own):
                if chosen_S[s]:
                    out[s] = mean_or_nan([x for verdict in answer.samples if (x := verdict.scores[j]) is not None])
        return out

    return Source([Judge(place_S[own[0]].traj, tuple(place_S[s] for s in own), template) for own in asked], read)


def _at(units: Units, asked: list[int], values: list[float]) -> FloatArray:
    out = np.full(len(units), np.nan)
    out[asked] = values
    return out
