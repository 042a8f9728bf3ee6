"""Made-up answers for the checks of methods that ask: random numbers that depend on what the policy sampled alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from apportion.asks import (
    Answer,
    Ask,
    Attend,
    Attended,
    Continuation,
    Continue,
    Judge,
    Logprob,
    Move,
    Place,
    Score,
    Verdict,
    samples_of,
    traj_of,
)
from apportion.credit import Credit
from apportion.data import Step, Trajectory
from apportion.methods import MethodSpec
from apportion.units import Units

ROUNDS = 1000
"""An adaptive plan that asks more often than this never ends."""

Answering = Callable[[Ask, Units], Answer]
"""Who answers a method under test: an ask about these units in, its answer out."""


def pretend(ask: Ask, rollout: Trajectory) -> Answer:
    """An answer with all the samples that were asked for; equal for asks of equal content.

    A continuation takes one to three steps with a reward at the end; scores and values are normal, log-probabilities
    negative, attention positive, verdicts whole numbers from 0 to 10 or, now and then, none.
    """
    rng = np.random.default_rng(_seed(ask, rollout))
    return Answer(ask, tuple(_sample(ask, rollout, rng) for _ in range(samples_of(ask))))


def all_answered(ask: Ask, units: Units) -> Answer:
    """A pretended answer for every ask."""
    return pretend(ask, units.batch.trajectories[traj_of(ask)])


def credit_of(spec: MethodSpec, units: Units, params: Mapping[str, Any], answering: Answering = all_answered) -> Credit:
    """Credit by a registered method; one that asks gets pretended answers, round after round."""
    if spec.plan is None:
        return spec.call(units, **params)
    bound = spec.bind(params)
    spec.check(units)
    answers: list[Answer] = []
    for _ in range(ROUNDS):
        asks: Sequence[Ask] = spec.plan(units, answers, **bound) if spec.adaptive else spec.plan(units, **bound)
        answers += [answering(ask, units) for ask in asks]
        if not asks or not spec.adaptive:
            return spec.call(units, answers, **params)
    raise AssertionError(f"its plan still asks after {ROUNDS} rounds; it must come to an end")


def _sample(ask: Ask, rollout: Trajectory, rng: np.random.Generator) -> Any:
    match ask:
        case Continue():
            count = int(rng.integers(1, 4))
            return Continuation(tuple(_move(rng, last=j == count - 1) for j in range(count)))
        case Judge(units=units):
            drawn = [None if rng.random() < 0.1 else float(rng.integers(0, 11)) for _ in units]
            return Verdict(tuple(drawn), scale=(0.0, 10.0))
        case Logprob(at=at, until=until, target=target):
            end = sampled(rollout.steps[at.step]) if until is None else until
            size = max(1, len((target or "").split())) if target is not None else end - at.token
            return tuple((-rng.exponential(size=size)).tolist())
        case Attend(spans=spans):
            return Attended(float(rng.normal()), tuple(rng.exponential(size=len(spans)).tolist()))
    return float(rng.normal())


def _move(rng: np.random.Generator, *, last: bool) -> Move:
    ids = tuple(rng.integers(0, 1000, size=int(rng.integers(1, 4))).tolist())
    logp = tuple((-rng.exponential(size=len(ids))).tolist())
    return Move(ids, logp, action="words " * len(ids), reward=float(rng.normal()) if last else 0.0, terminated=last)


def _seed(ask: Ask, rollout: Trajectory) -> int:
    """Of everything the policy wrote before the place of the ask, and of the ask but for its position in the batch."""
    place = getattr(ask, "at", None) or getattr(ask, "upto", None) or Place(0, len(rollout.steps) - 1, 1 << 30)
    digest = hashlib.blake2b(digest_size=8)
    for s, step in enumerate(rollout.steps[: place.step + 1]):
        last = place.token if s == place.step and not isinstance(ask, Score) else None
        digest.update(f"|{','.join(_words(step)[:last])}".encode())
    own = {name: getattr(ask, name) for name in type(ask).__slots__ if name not in ("traj", "at", "upto")}
    if isinstance(ask, Judge):
        own["units"] = [(unit.step, unit.token) for unit in ask.units]
    digest.update(f"{type(ask).__name__} {place.step}.{place.token} {own}".encode())
    return int.from_bytes(digest.digest(), "big")


def _words(step: Step) -> list[str]:
    return (step.action or "").split() if step.ids is None else list(map(str, step.ids))


def sampled(step: Step) -> int:
    """Tokens, or words, that the policy sampled in a step."""
    return len(_words(step))
