"""Somebody to ask, for tests: answers by rule, counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apportion.asks import KINDS, Answer, Continuation, Move
from apportion.methods import get
from apportion.resources import Asker, Request, Table
from apportion.units import Units


def ends_with(*rewards: float, finished: bool = True, scored: bool = True) -> Continuation:
    """A continuation whose moves bring these rewards."""
    return Continuation(tuple(Move((1,), action="a", reward=r) for r in rewards), scored, finished)


def asker(function: Callable[[Request], Any], **options: Any) -> Asker:
    """An asker around a function that answers every kind of ask."""
    return Asker(Table(function, kinds=KINDS.values(), identity="test"), **options)


def answered(method: str, units: Units, values: list[Any], **params: Any) -> list[Answer]:
    """Answers to the plan of a method, in its order: a list of samples each, or one sample."""
    spec = get(method)
    asks = spec.plan(units, **spec.bind(params))
    assert len(asks) == len(values), f"the plan has {len(asks)} asks"
    return [
        Answer(ask, tuple(value) if isinstance(value, list) else (value,))
        for ask, value in zip(asks, values, strict=True)
    ]
