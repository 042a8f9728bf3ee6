import dataclasses
from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_episode
from tests.make import random_units
from tests.plain import plain, spread


def rollouts(*parts, group=None, tokens=None):
    """One step each; parts by name."""
    made = []
    for i, given in enumerate(parts):
        step = Step(ids=[1] * (tokens[i] if tokens else 1))
        made.append(Trajectory([step], outcome=1.0, outcomes=given, group=str(group[i] if group else 0)))
    return by_episode(Batch.from_trajectories(made))


def pair(*values):
    return rollouts(*({"a": a, "b": b} for a, b in values))


def test_worked_example():
    # (0,0) against (1,0), and (0,0) against (1,1): the sums differ by 1 and by 2, and GRPO cannot tell
    one, two = pair((0, 0), (1, 0)), pair((0, 0), (1, 1))
    np.testing.assert_allclose(assign("gdpo", one, epsilon=1e-6).advantage_S, [-0.707106, 0.707106], atol=5e-7)
    np.testing.assert_allclose(assign("gdpo", two, epsilon=1e-6).advantage_S, [-1.414212, 1.414212], atol=5e-7)
    credit = assign("gdpo", two, weights=(1.0, 0.5))
    np.testing.assert_allclose(credit.parts["b"], [-(0.5**1.5), 0.5**1.5])
    assert list(credit.parts) == ["a", "b"]


def test_the_released_epsilons():
    # verl: 1e-6 on each std (.5 ** .5), then 1e-8 on the variance of the sum; the host's numbers in its two steps
    units = pair((0, 0), (1, 1))
    first = 2 * 0.5 / (0.5**0.5 + 1e-6)
    want = first / (2 * first**2 + 1e-8) ** 0.5
    got = assign("gdpo", units, epsilon=1e-6, whiten="token", whiten_epsilon=1e-8).advantage_S
    np.testing.assert_allclose(got, [-want, want], rtol=1e-13)
    spelled = assign("gdpo(epsilon=1e-6) | whiten(epsilon=1e-8, inside=True)", units).advantage_S
    np.testing.assert_allclose(got, spelled, rtol=1e-13)
    # TRL: on the std both times, and over rollouts, however long each is
    trl = assign(
        "gdpo(epsilon=1e-4) | whiten(over='unit', epsilon=1e-4)", rollouts({"a": 0.0}, {"a": 1.0}, tokens=[1, 5])
    )
    first = 0.5 / (0.5**0.5 + 1e-4)
    want = np.array([-1, 1]) * first / (2**0.5 * first + 1e-4)
    np.testing.assert_allclose(trl.advantage_S, want, rtol=1e-13)


def test_a_group_of_one():
    units = rollouts({"a": 3.0}, {"a": 1.0}, {"a": 2.0}, group=[0, 1, 1])
    np.testing.assert_allclose(assign("gdpo", units).advantage_S, [0, -(0.5**0.5), 0.5**0.5])
    raw = assign("gdpo", units, group_of_one="raw", epsilon=1e-6).advantage_S
    np.testing.assert_allclose(raw[0], 3.0 / (1 + 1e-6))


def test_a_reward_that_was_not_given_is_no_zero():
    units = rollouts({"a": 1.0, "b": 4.0}, {"a": 3.0}, {"a": 2.0, "b": 2.0}, {})
    credit = assign("gdpo", units)
    np.testing.assert_allclose(credit.parts["a"], [-1, 1, 0, 0])
    np.testing.assert_allclose(credit.parts["b"], [0.5**0.5, 0, -(0.5**0.5), 0])
    assert credit.known_S.tolist() == [True, True, True, False]
    assert credit.notes["missing_parts"] == 3
    broken = dataclasses.replace(units.batch.trajectories[3], steps=[Step(ids=[1], failed=True)])  # not one of them
    again = by_episode(Batch.from_trajectories([*units.batch.trajectories, broken]))
    assert assign("gdpo", again).notes["missing_parts"] == 3


def slow_gdpo(rollouts, trajectories, names, weights, scale, ddof, epsilon, group_of_one):
    for r, t in zip(rollouts, trajectories, strict=True):
        total, known = 0.0, False
        for name, weight in zip(names, weights, strict=True):
            xs = [
                o.outcomes[name]
                for p, o in zip(rollouts, trajectories, strict=True)
                if p.valid and p.group == r.group and name in o.outcomes
            ]
            if not r.valid or name not in t.outcomes:
                continue
            known = True
            x = t.outcomes[name]
            if len(xs) == 1:
                if group_of_one == "raw":
                    total += weight * x / (1 + epsilon if scale == "std" else 1)
            elif spread(xs, 0):
                centred = x - sum(xs) / len(xs)
                total += weight * (centred if scale == "none" else centred / (spread(xs, ddof) + epsilon))
        yield from [(round(total, 12), known)] * len(r.rewards)  # rewards may cancel up to rounding


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False, parts=True)
    flat = plain(units.batch)
    modes = product(
        ["std", "none"],
        [0, 1],
        [0.0, 0.1],
        ["zero", "raw"],
        [("none", 0.0), ("token", 0.0), ("token", 0.2), ("unit", 0.2)],
    )
    for scale, ddof, epsilon, group_of_one, (whiten, whiten_epsilon) in modes:
        how = {"scale": scale, "ddof": ddof, "epsilon": epsilon, "group_of_one": group_of_one}
        for names, weights in [(((), ()), (("länge",), (0.3,)), (("länge", "correct"), (2.0, -1.0)))[seed % 3]]:
            rows = slow_gdpo(
                flat, units.batch.trajectories, names or ["correct", "länge"], weights or [1.0, 1.0], **how
            )
            want, known = map(np.array, zip(*rows, strict=True))
            if whiten != "none":
                tokens = [n for r in flat for n in r.tokens]
                counted = [
                    x
                    for x, k, n in zip(want, known, tokens, strict=True)
                    for _ in range((n if whiten == "token" else 1) if k else 0)
                ]
                std = spread(counted, ddof)
                want = (want - sum(counted) / len(counted)) / (std**2 + whiten_epsilon) ** 0.5 if std else 0 * want
            credit = assign(
                "gdpo", units, parts=names, weights=weights, whiten=whiten, whiten_epsilon=whiten_epsilon, **how
            )
            np.testing.assert_array_equal(credit.known_S, known)
            np.testing.assert_allclose(credit.advantage_S, np.where(known, want, 0.0), atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_with_one_reward_it_is_grpo(seed):
    units = random_units(seed)
    units = dataclasses.replace(units, outcome_parts={"all": np.where(units.valid_N, units.outcome_N, np.nan)})
    np.testing.assert_allclose(assign("gdpo", units).advantage_S, assign("grpo", units).advantage_S, atol=1e-12)
    want = assign("grpo | whiten", units).advantage_S
    np.testing.assert_allclose(assign("gdpo | whiten", units).advantage_S, want, atol=1e-12)
    np.testing.assert_allclose(assign("gdpo", units, whiten="token").advantage_S, want, atol=1e-9)


def test_unscaled_its_mean_is_the_true_advantage_of_the_weighted_sum():
    # two actions; the batch is the distribution: a with 1/3 (parts 1, 0), b with 2/3 (parts 0, 1 or 0, 3)
    units = rollouts({"x": 1, "y": 0}, {"x": 0, "y": 1}, {"x": 0, "y": 3})
    got = assign("gdpo", units, scale="none", weights=(2.0, 0.5)).advantage_S
    value = (2 + 0.5 + 1.5) / 3
    np.testing.assert_allclose([got[0], got[1:].mean()], [2 - value, 1 - value])


def test_a_constant_reward_adds_nothing():
    assert assign("gdpo", pair((0.3, 0), (0.3, 1), (0.3, 0))).parts["a"].tolist() == [0, 0, 0]
    assert assign("gdpo", pair((0.3, 1), (0.3, 1)), whiten="unit").advantage_S.tolist() == [0, 0]


def test_what_it_refuses():
    units = pair((0, 0), (1, 1))
    with pytest.raises(ConfigError, match="gdpo: 1 weights for the parts a, b; give one for each"):
        assign("gdpo", units, weights=(1.0,))
    with pytest.raises(DataError, match=r"gdpo reads outcome_parts:c, .* lack; give Trajectory.outcomes\['c'\]"):
        assign("gdpo", units, parts=("c",))
    for name in ("scale", "group_of_one", "whiten"):
        with pytest.raises(ConfigError, match=f"gdpo: {name} is 'x'; give one of"):
            assign("gdpo", units, **{name: "x"})


def test_rewards_that_cancel_leave_no_rounding():
    values = (0.1, 0.7, 0.2)
    assert assign("gdpo", pair(*((v, -v) for v in values))).advantage_S.tolist() == [0, 0, 0]
