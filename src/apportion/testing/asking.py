"""Checks of what a method asks and what it makes of answers that do not come; others have nothing to check here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apportion.asks import Answer, Ask, Judge, Place, Score, asked_of, samples_of, traj_of
from apportion.credit import Credit
from apportion.testing.pretend import Answering, all_answered, credit_of, sampled
from apportion.testing.subject import Method, subject_of
from apportion.units import Units

LEFT_OUT = (0.5, 1.0)
"""Shares of the asks that nobody answers."""


def check_asks(method: Method, units: Units) -> None:
    """It asks whom it declares to need, about places that there are, and no more than it says that it could at most."""
    spec = subject_of(method).spec
    if spec is None or spec.plan is None:
        return
    asked: dict[Ask, None] = {}

    def noted(ask: Ask, units: Units) -> Answer:
        _check_ask(ask, units, spec.needs)
        asked[ask] = None
        return all_answered(ask, units)

    _credit(spec, units, noted)
    if spec.most is not None:
        most = sum(map(samples_of, dict.fromkeys(spec.most(units, **spec.bind(spec.example)))))
        count = sum(map(samples_of, asked))
        assert count <= most, f"it asked for {count} samples, and its `most` tells {most}; the budget trusts `most`"


def check_missing_answers(method: Method, units: Units) -> None:
    """Where samples failed, all or some of an ask's, the credit is finite or unknown."""
    spec = subject_of(method).spec
    if spec is None or spec.plan is None:
        return
    for share in LEFT_OUT:
        rng = np.random.default_rng(len(units))

        def lossy(ask: Ask, units: Units, share: float = share, rng: np.random.Generator = rng) -> Answer:
            answer = all_answered(ask, units)
            kept = () if rng.random() < share else answer.samples[: int(rng.integers(1, len(answer.samples) + 1))]
            return Answer(ask, kept, failed=len(answer.samples) - len(kept), reason="not answered")

        try:
            _credit(spec, units, lossy)
        except AssertionError as problem:
            which = "all" if share == 1.0 else "some"
            sentence = f"{problem}, where {which} answers failed; mark what they leave open unknown"
            raise AssertionError(sentence) from problem


def _credit(spec: Any, units: Units, answering: Answering) -> Credit:
    params: Mapping[str, Any] = spec.example
    try:
        return credit_of(spec, units, params, answering)
    except AssertionError:
        raise
    except Exception as problem:
        raise AssertionError(f"raised {type(problem).__name__}: {problem}") from problem


def _check_ask(ask: Ask, units: Units, needs: tuple[str, ...]) -> None:
    who = asked_of(ask)
    assert who in needs, f"it asks a {who} ({type(ask).__name__}), which `needs` does not declare"
    rollouts = units.batch.trajectories
    assert 0 <= traj_of(ask) < len(rollouts), f"it asks about trajectory {traj_of(ask)} of {len(rollouts)}"
    steps = rollouts[traj_of(ask)].steps
    for place in _places(ask):
        assert 0 <= place.step < len(steps), (
            f"it asks about step {place.step} of trajectory {place.traj}, which has {len(steps)}; "
            "steps of a place are counted inside their trajectory"
        )
        tokens = sampled(steps[place.step])
        assert 0 <= place.token <= tokens, (
            f"it asks about token {place.token} of step {place.step} of trajectory {place.traj}, which has {tokens}"
        )


def _places(ask: Ask) -> tuple[Place, ...]:
    if isinstance(ask, Judge):
        return ask.units
    place = ask.upto if isinstance(ask, Score) else getattr(ask, "at", None)
    return () if place is None else (place,)
