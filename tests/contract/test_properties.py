"""Every registered method on rollouts that Hypothesis draws: ragged, with all that breaks careless code."""

import dataclasses
import functools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.methods import get, names
from apportion.testing import levels_for
from apportion.testing.subject import plain_credit
from apportion.units import CUTS

ASKS_NOBODY = [name for name in names() if not get(name).needs]
TEXTS = ("go", "größe", "鍵を取る", "🦊 \u2028", "", " a ")
REWARDS = (0.0, 1.0, 0.3, -0.5, 1e-9, 1e6)
WELL_APART = tuple(r for r in REWARDS if r != 1e-9)
"""Sums of a few of these are equal or at least 0.1 apart (1e-10 of rounding beside 1e6)."""
COLUMNS = ("prm_logp", "prob_square", "planning")
LONG = 100_000


@st.composite
def rollouts(draw, constant=None, rewards=REWARDS):
    """1 to 7 rollouts in 1 to 3 groups; ``constant`` is the reward that all outcomes have, else some of ``rewards``."""
    out = []
    for _ in range(draw(st.integers(1, 7))):
        steps = []
        for _ in range(draw(st.integers(1, 4))):
            size = draw(st.sampled_from((0, 1, 1, 2, 3)))
            reward = None if constant is not None else draw(st.sampled_from((None, *rewards)))
            steps.append(step(draw(st.sampled_from(TEXTS)), size, reward, draw(st.integers(0, 1))))
        scored = constant is not None or draw(st.booleans())
        outcome = constant if constant is not None else draw(st.sampled_from(rewards)) if scored else None
        outcomes = {} if outcome is None else {"correct": outcome, "länge": float(draw(st.integers(0, 3)))}
        if constant is not None:
            outcomes = {"correct": constant}
        steps[-1] = dataclasses.replace(steps[-1], truncated=draw(st.booleans()))
        group = draw(st.sampled_from(("ß", "鍵", "c")))
        out.append(Trajectory(steps, group=group, outcome=outcome, outcomes=outcomes))
    return out


def step(text, size, reward, kind):
    own = [-0.25 * (k + 1) for k in range(size)]
    columns = {"prm_logp": [x - 0.5 for x in own], "prob_square": [0.7] * size, "planning": [float(kind)] * size}
    more = {} if reward is None else {"rewards": {"format": 1.0, "work": reward, "score": reward}}
    return Step(
        observation=text,
        action="x " * size,
        prompt_ids=[kind, 5],
        ids=[10 + kind + k for k in range(size)],
        logp=own,
        ref_logp=[x - 0.1 for x in own],
        entropy=[0.5 * k for k in range(size)],
        token_values=[0.1] * size,
        value=0.2,
        reward=reward,
        agent="planner" if kind else "coder",
        columns=columns,
        **more,
    )


def credit_of(name, trajectories, level=None):
    """The credit at one level, or None where the method says that something is missing."""
    spec = get(name)
    level = level or (spec.unit if spec.unit != "segment" else "step")
    units = trajectories(level) if callable(trajectories) else CUTS[level](Batch.from_trajectories(trajectories))
    try:
        return spec.call(plain_credit(units) if spec.kind == "transform" else units, **spec.example)
    except DataError as problem:
        if not str(problem).startswith(name):
            raise
        return None


def sound(credit):
    """Finite, 0 where unknown, nothing on tokens that were not sampled, parts that add up."""
    tokens, batch = credit.to_tokens(), credit.units.batch
    assert np.isfinite(credit.advantage_S).all()
    assert not credit.advantage_S[~np.asarray(credit.known_S)].any()
    assert not tokens.advantage_T[~batch.sampled_T].any()
    assert not tokens.weight_T[~batch.sampled_T].any()
    assert not np.asarray(credit.known_S)[~batch.has_tokens_N[credit.units.traj_of_S]].any() or not len(credit.units)
    if credit.parts:
        size = max(float(np.abs(part).max(initial=0.0)) for part in credit.parts.values())
        np.testing.assert_allclose(sum(credit.parts.values()), credit.advantage_S, atol=1e-9 * max(size, 1e-300))


FEW = settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", ASKS_NOBODY)
@FEW
@given(data=st.data())
def test_sound_whatever_is_drawn(name, data):
    level = data.draw(st.sampled_from([level for level in levels_for(name) if level != "segment"]))
    credit = credit_of(name, data.draw(rollouts()), level)
    if credit is not None:
        sound(credit)


def compares_outcomes(name):
    """It says so by its law, and reads no process model and no named parts, which are signals of their own."""
    spec = get(name)
    own = any("logp" in column for column in spec.reads) or "reward_parts" in spec.reads
    return spec.kind == "method" and "shift_invariant" in spec.holds and not own


@pytest.mark.parametrize("name", [name for name in ASKS_NOBODY if compares_outcomes(name)])
@FEW
@given(data=st.data())
def test_equal_outcomes_are_no_signal(name, data):
    credit = credit_of(name, data.draw(rollouts(constant=data.draw(st.sampled_from((0.1, 0.3, 7.0))))))
    if credit is not None:
        assert not credit.advantage_S.any()


@functools.cache
def long_batch():
    steps = [[step("a", 1, 0.5, 0), step("b", LONG, 1.0 - n, n)] for n in (0, 1)]
    return Batch.from_trajectories(
        [Trajectory(own, group="g", outcomes={"correct": float(n)}) for n, own in enumerate(steps)]
    )


@functools.cache
def long_units(level):
    return CUTS[level](long_batch())


@pytest.mark.parametrize("name", ASKS_NOBODY)
def test_a_step_of_a_hundred_thousand_tokens(name):
    credit = credit_of(name, long_units)
    assert credit is not None
    sound(credit)


@pytest.mark.parametrize("name", ASKS_NOBODY)
@FEW
@given(data=st.data())
def test_single_precision_inputs_agree(name, data):
    """Within 1e-4 of the largest credit, or of 1.

    The inputs move by 2^-24 of themselves: rewards that single precision cannot hold (0.3 alone) by 2e-8 each, so
    returns by 1e-7 at most. What a credit is divided by is 0 in both or the deviation of numbers that lie 0.1 apart,
    0.04 at least in groups of 7: 3e-6, and a few such steps. Where spreads come down to the 1e-9 of the largest
    number that counts as none, no tolerance would do: see below.
    """
    drawn = data.draw(rollouts(rewards=WELL_APART))
    coarse = [
        dataclasses.replace(
            t,
            steps=[
                dataclasses.replace(
                    s,
                    logp=np.float32(s.logp),
                    ref_logp=np.float32(s.ref_logp),
                    reward=None
                    if s.reward is None
                    else float(np.float32(s.reward)),  # as the outcomes: equal stay equal
                )
                for s in t.steps
            ],
            outcome=None if t.outcome is None else float(np.float32(t.outcome)),
        )
        for t in drawn
    ]
    a, b = credit_of(name, drawn), credit_of(name, coarse)
    assert (a is None) == (b is None)
    if a is not None and b is not None:
        size = max(float(np.abs(a.advantage_S).max(initial=0.0)), 1.0)
        np.testing.assert_allclose(b.advantage_S, a.advantage_S, atol=1e-4 * size)


def test_a_spread_at_the_edge_of_none_is_decided_by_the_last_bit():
    # -.5 three times and -.5 + 1e-9: the deviation is 1e-9 of the largest number, the edge, but for rounding
    def credit(tiny):
        rewards = [[-0.5], [-0.5], [-0.5], [-0.5, tiny]]
        rollouts = [Trajectory([step("a", 1, r, 0) for r in own], group="g") for own in rewards]
        return get("grpo").call(CUTS["episode"](Batch.from_trajectories(rollouts))).advantage_S

    np.testing.assert_allclose(credit(1.01e-9), [-0.5, -0.5, -0.5, 1.5], atol=1e-6)
    assert not credit(0.99e-9).any()
