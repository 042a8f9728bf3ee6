import dataclasses
from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_token
from tests.make import random_units, units_of
from tests.plain import plain
from tests.tree import advantages, average, tree_units


def with_values(units, values):
    return dataclasses.replace(units, value_S=np.array(values, dtype=float))


def two_turns(r, v):
    """Four sampled tokens with two observation tokens in the middle; a reward at the last."""
    steps = [
        Step(prompt_ids=[], ids=[1, 2], token_values=v[:2]),
        Step(prompt_ids=[7, 8], ids=[3, 4], token_values=v[2:], reward=r),
    ]
    return by_token(Batch.from_trajectories([Trajectory(steps)]))


@pytest.mark.parametrize(
    ("gamma", "lam", "want"),
    [
        (1.0, 0.95, [0.465987, 0.385250, 0.195, 0.1]),
        (1.0, 1.0, [0.5, 0.4, 0.2, 0.1]),
        (0.99, 0.95, [0.438260, 0.366040, 0.185050, 0.1]),
    ],
)
def test_worked_example_across_an_observation(gamma, lam, want):
    # V = .5 .6 | .8 .9, reward 1 at the end; e.g. gamma 1, lam .95: A3 = .1, A2 = (.9 - .8) + .95 * .1 = .195,
    # A1 = (.8 - .6) + .95 * .195, A0 = (.6 - .5) + .95 * A1: the observation between costs nothing
    credit = assign("gae", two_turns(1.0, [0.5, 0.6, 0.8, 0.9]), gamma=gamma, lam=lam)
    np.testing.assert_allclose(credit.advantage_S, want, atol=5e-7)
    assert credit.to_tokens().advantage_T[2:4].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("gamma", "lam", "want"),
    [
        (1.0, 0.95, [0.374729, 0.289188, 0.195, 0.1]),
        (1.0, 1.0, [0.5, 0.4, 0.2, 0.1]),
        (0.99, 0.95, [0.333358, 0.254501, 0.185050, 0.1]),
    ],
)
def test_observations_of_value_zero(gamma, lam, want):
    # the same as OpenRLHF has it: two more states of value 0, each with a discount
    units = two_turns(1.0, [0.5, 0.6, 0.8, 0.9])
    credit = assign("gae", units, gamma=gamma, lam=lam, observations="zero")
    np.testing.assert_allclose(credit.advantage_S, want, atol=5e-7)


def slow_through_zeros(rollout, gamma, lam):
    """Token by token over the whole row, from the first sampled token to the last."""
    row, own = [], []
    for step in rollout.steps:
        row += [(0.0, 0.0)] * len(step.prompt_ids)
        own += range(len(row), len(row) + len(step.ids))
        row += [[0.0, v] for v in step.token_values]
        if step.reward is not None and own:
            at = own[-1]
            row[at] = [row[at][0] + step.reward, row[at][1]]
    row = row[: own[-1] + 1]
    after = rollout.final_value if rollout.steps[-1].truncated and rollout.final_value is not None else 0.0
    out, carry, ahead = {}, 0.0, after
    for t in reversed(range(own[0], len(row))):
        r, v = row[t]
        carry = r + gamma * ahead - v + gamma * lam * carry
        out[t], ahead = carry, v
    return [out[t] for t in own]


@pytest.mark.parametrize("seed", range(50))
def test_observations_of_value_zero_equal_the_slow_reference(seed):
    rng = np.random.default_rng([seed, 5])
    rollouts = []
    for _ in range(4):
        steps = []
        for _ in range(int(rng.integers(1, 5))):
            n = int(rng.integers(1, 4))
            steps.append(Step(prompt_ids=[7] * int(rng.integers(0, 4)), ids=[1] * n, token_values=rng.normal(size=n),
                              reward=float(rng.normal())))  # fmt: skip
        steps[-1] = dataclasses.replace(steps[-1], truncated=bool(rng.random() < 0.5))
        rollouts.append(Trajectory(steps, final_value=float(rng.normal()) if rng.random() < 0.5 else None))
    gamma, lam = rng.uniform(0.5, 1, size=2).tolist()
    units = by_token(Batch.from_trajectories(rollouts))
    got = assign("gae", units, gamma=gamma, lam=lam, observations="zero").advantage_S
    np.testing.assert_allclose(got, [a for t in rollouts for a in slow_through_zeros(t, gamma, lam)], atol=1e-12)
    if not any(step.prompt_ids.size for t in rollouts for step in t.steps[1:]):
        np.testing.assert_array_equal(got, assign("gae", units, gamma=gamma, lam=lam).advantage_S)


def test_observations_are_crossed_or_of_value_zero():
    units = two_turns(1.0, [0.5, 0.6, 0.8, 0.9])
    with pytest.raises(ConfigError, match="gae: observations is 'stop'; give 'cross' or 'zero'"):
        assign("gae", units, observations="stop")
    with pytest.raises(ConfigError, match="gae: observations='zero' is of tokens, the units are steps; cut with by_"):
        assign("gae", random_units(0, forks=False), observations="zero")


def test_whitened_over_the_sampled_tokens():
    credit = assign("gae | whiten", two_turns(1.0, [0.5, 0.6, 0.8, 0.9]))
    np.testing.assert_allclose(credit.advantage_S, [1.065199, 0.585890, -0.543554, -1.107534], atol=5e-7)


def slow_gae(rollout, gamma, lam):
    n = len(rollout.rewards)
    after = rollout.final if rollout.truncated and rollout.final is not None else 0.0
    values = [*rollout.values, after]
    delta = [rollout.rewards[s] + gamma * values[s + 1] - values[s] for s in range(n)]
    return [sum((gamma * lam) ** (k - s) * delta[k] for k in range(s, n)) for s in range(n)]


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False)
    rollouts = plain(units.batch)
    for gamma, lam in product([1.0, 0.9], [0.0, 0.95, 1.0]):
        want = [a if r.valid else 0.0 for r in rollouts for a in slow_gae(r, gamma, lam)]
        np.testing.assert_allclose(assign("gae", units, gamma=gamma, lam=lam).advantage_S, want, atol=1e-9)


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference_over_tokens(seed):
    units = by_token(random_units(seed, forks=False).batch)
    want = []
    for t, r in zip(units.batch.trajectories, plain(units.batch), strict=True):
        values = [v for step in t.steps for v in step.token_values]
        flat = [0.0] * len(values)
        for s, reward in enumerate(
            r.rewards
        ):  # the step's last token; with none, the token before; else the first after
            if values:
                flat[max(sum(r.tokens[: s + 1]) - 1, 0)] += reward
        r.rewards, r.values = flat, values
        want += [a if r.valid else 0.0 for a in slow_gae(r, 0.9, 0.8)]
    np.testing.assert_allclose(assign("gae", units, gamma=0.9, lam=0.8).advantage_S, want, atol=1e-9)


def test_truncated_bootstraps_and_terminated_does_not():
    steps = [Step(ids=[1], reward=0.0, value=0.5), Step(ids=[2], reward=0.0, value=0.6, truncated=True)]
    ends = [dataclasses.replace(steps[1], truncated=False, terminated=True)]
    from apportion.units import by_step

    units = by_step(
        Batch.from_trajectories(
            [
                Trajectory(steps, final_value=0.7),
                Trajectory([steps[0], *ends], final_value=0.7),
                Trajectory(steps),
            ]
        )
    )
    credit = assign("gae", units, lam=1.0)
    np.testing.assert_allclose(credit.advantage_S, [0.2, 0.1, -0.5, -0.6, -0.5, -0.6])
    assert credit.notes == {"truncated_without_value": 1}


def test_lambda_zero_is_the_td_error_and_lambda_one_is_return_minus_value():
    units = random_units(5, forks=False, rich=False, unscored=False)
    units = dataclasses.replace(units, truncated_N=np.zeros(len(units.group_of_N), dtype=bool))
    returns = assign("reinforce", units, gamma=0.9).advantage_S
    np.testing.assert_allclose(assign("gae", units, gamma=0.9, lam=1.0).advantage_S, returns - units.value_S)
    after = np.where(units.last_S, 0.0, np.roll(units.value_S, -1))
    td = units.reward_S + 0.9 * after - units.value_S
    np.testing.assert_allclose(assign("gae", units, gamma=0.9, lam=0.0).advantage_S, td)


@pytest.mark.parametrize(("gamma", "lam"), list(product([1.0, 0.8], [0.0, 0.5, 1.0])))
def test_with_exact_values_its_mean_is_the_true_advantage(gamma, lam):
    units, moves = tree_units(gamma)
    got = average(assign("gae", units, gamma=gamma, lam=lam).advantage_S, moves)
    assert got == pytest.approx(advantages(gamma), abs=1e-12)


def test_without_values_it_says_where_they_come_from():
    units = units_of([0], [1], [("A", 1)])
    with pytest.raises(DataError, match=r"gae reads value_S, which the units \(cut by step\) lack; .*Step.value"):
        assign("gae", units)
    assert assign("gae", with_values(units, [0.25])).advantage_S.tolist() == [0.75]
