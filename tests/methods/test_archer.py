"""ArCHer's credit: worked numbers, a plain loop, and the exact advantage where the critic is exact."""

import dataclasses
import math

import numpy as np
import pytest

import apportion as ap
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from tests.make import random_units
from tests.plain import plain
from tests.tree import advantages, average, q, tree_units, value

WORKED = [((-8.2, -8.0), (-8.6, -8.9), 0.7), ((-9.1, -8.8), (-8.6, -8.9), -0.2)]


def told(pairs, *, names=("q", "v")):
    """One rollout, a turn for each pair of numbers; None = no number."""
    steps = [
        Step(prompt_ids=[1], ids=[2], rewards={n: x for n, x in zip(names, pair, strict=True) if x is not None}, turn=k)
        for k, pair in enumerate(pairs)
    ]
    return ap.by_turn(Batch.from_trajectories([Trajectory(steps, outcome=1.0)]))


def test_the_worked_numbers():
    units = told([(min(q), min(v)) for q, v, _ in WORKED])
    credit = ap.assign("archer", units)
    np.testing.assert_allclose(credit.advantage_S, [a for *_, a in WORKED])
    assert credit.advantage_S[0] * -12 == pytest.approx(-8.4)  # its loss is minus that
    np.testing.assert_allclose(credit.parts["q"] + credit.parts["v"], credit.advantage_S)
    assert ap.assign("archer", units, form="awr").advantage_S[0] == pytest.approx(2.0138, abs=5e-5)
    assert ap.assign("archer", units, form="awr", inv_temp=2.0).advantage_S[0] == pytest.approx(math.exp(1.4))


def test_an_utterance_without_both_numbers_is_unknown():
    credit = ap.assign("archer", told([(1.0, 0.5), (None, 0.5), (1.0, None)]))
    np.testing.assert_array_equal(credit.known_S, [True, False, False])
    np.testing.assert_array_equal(credit.advantage_S, [0.5, 0.0, 0.0])
    assert credit.notes["units_without_value"] == 2
    assert ap.assign("archer", told([(1.0, 0.5), (None, 0.5)]), form="awr").advantage_S[1] == 0.0


def slow_reference(batch, q_part, v_part, form, inv_temp):
    """One step after the other, from the trajectories as they are given."""
    out = []
    for r, t in zip(plain(batch), batch.trajectories, strict=True):
        for step in t.steps:
            better = step.rewards.get(q_part, math.nan) - step.rewards.get(v_part, math.nan)
            number = better if form == "advantage" or math.isnan(better) else math.exp(inv_temp * better)
            out.append(number if r.valid else math.nan)
    return np.array(out)


@pytest.mark.parametrize("seed", range(20))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False, parts=True)
    for form, inv_temp in (("advantage", 1.0), ("awr", 1.0), ("awr", 0.3)):
        got = ap.assign("archer", units, q="work", v="format", form=form, inv_temp=inv_temp)
        want = slow_reference(units.batch, "work", "format", form, inv_temp)
        np.testing.assert_array_equal(got.known_S, np.isfinite(want))
        np.testing.assert_allclose(got.advantage_S, np.nan_to_num(want), atol=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.95, 0.5])
def test_with_the_exact_critic_it_is_the_true_advantage(gamma):
    units, moves = tree_units(gamma)
    parts = {"q": [q(s, a, gamma) for s, a in moves], "v": [value(s, gamma) for s, _ in moves]}
    units = dataclasses.replace(units, reward_parts={name: np.array(x) for name, x in parts.items()})
    assert average(ap.assign("archer", units).advantage_S, moves) == pytest.approx(advantages(gamma), abs=1e-12)


def test_the_sampled_outcome_does_not_enter():
    units = told([(1.0, 0.5)])
    other = dataclasses.replace(units, reward_S=units.reward_S + 7.0, outcome_N=units.outcome_N + 7.0)
    np.testing.assert_array_equal(ap.assign("archer", other).advantage_S, ap.assign("archer", units).advantage_S)


def test_what_cannot_be_is_said():
    with pytest.raises(DataError, match=r"archer reads reward_parts:v, .*Step.rewards\['v'\]"):
        ap.assign("archer", told([(1.0, 2.0)], names=("q", "x")))
    with pytest.raises(ConfigError, match="form is 'ppo'"):
        ap.assign("archer", told([(1.0, 0.5)]), form="ppo")
    for bad, says in ((-1.0, "give a number from 0 up"), (math.nan, "give a finite number")):
        with pytest.raises(ConfigError, match=f"inv_temp is {bad}; {says}"):
            ap.assign("archer", told([(1.0, 0.5)]), inv_temp=bad)
    with pytest.raises(DataError, match=r"archer: exp\(1 \* 900\) overflows; lower inv_temp"):
        ap.assign("archer", told([(900.0, 0.0)]), form="awr")
