"""What asking would cost: the plans of an expression, priced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from apportion.asks import Answer, Ask
from apportion.errors import DataError
from apportion.methods import MethodSpec
from apportion.resources import Asker, Quote, Ruler, Speed, quote
from apportion.units import Units


def planned(spec: MethodSpec, units: Units, answers: Sequence[Answer], bound: Mapping[str, Any]) -> Sequence[Ask]:
    """What a method asks next; for one that asks once, everything."""
    assert spec.plan is not None
    return spec.plan(units, answers, **bound) if spec.adaptive else spec.plan(units, **bound)


def most_asked(spec: MethodSpec, units: Units, bound: Mapping[str, Any]) -> Sequence[Ask]:
    """Everything that a method asks, or could ask at most where that depends on answers."""
    return planned(spec, units, (), bound) if spec.most is None else spec.most(units, **bound)


def price(
    asked: Sequence[tuple[MethodSpec, Mapping[str, Any]]],
    units: Units,
    *,
    ask: Asker | None,
    max_tokens: int | None,
    speed: Speed | None,
) -> Quote:
    """Sum of the prices of several methods on the same units; equal questions of two methods are counted once."""
    asks: list[Ask] = []
    exact = True
    for spec, bound in asked:
        spec.check(units)
        asks += most_asked(spec, units, bound)
        exact &= not spec.adaptive
    rollouts = units.batch.trajectories
    if ask is None:
        return quote(asks, rollouts, [Ruler(max_tokens)], speed=speed, exact=exact)
    if max_tokens is not None:
        raise DataError("cost: max_tokens is for an estimate without a resource; the resource given has its own limit")
    who = " + ".join(dict.fromkeys(spec.name for spec, _ in asked))
    return quote(asks, rollouts, ask.resources, cache=ask.cache, seed=ask.seed, speed=speed, exact=exact, who=who)


def free() -> Quote:
    """The price of methods that ask nothing."""
    return Quote(0, 0, 0, 0, 0, 0, 0, exact=True, seconds=0.0)
