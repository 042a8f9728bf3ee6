import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.units import by_token
from tests.make import random_units, units_of
from tests.plain import plain
from tests.tree import TREE, average, q, tree_units


def test_worked_example():
    # r = 1, 2, 3: G = 1 + 2 + 3, 2 + 3, 3; with gamma 1/2: 1 + 2/2 + 3/4, 2 + 3/2, 3
    units = units_of(group=[0], lengths=[3], steps=[("A", 1), ("B", 2), ("C", 3)])
    assert assign("reinforce", units).advantage_S.tolist() == [6.0, 5.0, 3.0]
    assert assign("reinforce", units, gamma=0.5).advantage_S.tolist() == [2.75, 3.5, 3.0]


def test_observations_cost_no_discount_and_reset_nothing():
    # sampled, sampled, two environment tokens, sampled, sampled; reward at the last: .5^3, .5^2, ·, ·, .5, 1
    steps = [Step(prompt_ids=[9], ids=[1, 2]), Step(prompt_ids=[7, 8], ids=[3, 4], reward=1.0)]
    units = by_token(Batch.from_trajectories([Trajectory(steps)]))
    assert assign("reinforce", units, gamma=0.5).to_tokens().advantage_T.tolist() == [0, 0.125, 0.25, 0, 0, 0.5, 1]
    assert assign("reinforce", units).to_tokens().advantage_T.tolist() == [0, 1, 1, 0, 0, 1, 1]


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, gamma):
    units = random_units(seed, forks=False)
    want = []
    for r in plain(units.batch):
        for s in range(len(r.rewards)):
            total = sum(gamma ** (k - s) * r.rewards[k] for k in range(s, len(r.rewards)))
            want.append(total if r.valid else 0.0)
    np.testing.assert_allclose(assign("reinforce", units, gamma=gamma).advantage_S, want, atol=1e-9)


def test_without_discount_the_first_step_gets_what_the_step_rewards_sum_to():
    units = random_units(3, forks=False)
    first = np.flatnonzero(np.diff(units.traj_of_S, prepend=-1))
    total = np.bincount(units.traj_of_S, weights=units.reward_S)
    got = assign("reinforce", units).advantage_S[first]
    np.testing.assert_allclose(got, np.where(units.valid_N, total, 0.0), atol=1e-12)


def test_with_zero_values_gae_at_lambda_one_is_reinforce():
    import dataclasses

    units = dataclasses.replace(random_units(4, forks=False), value_S=np.zeros(len(random_units(4, forks=False))))
    units = dataclasses.replace(units, truncated_N=np.zeros(len(units.group_of_N), dtype=bool))
    got = assign("gae", units, gamma=0.9, lam=1.0).advantage_S
    np.testing.assert_allclose(got, assign("reinforce", units, gamma=0.9).advantage_S, atol=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_its_mean_is_the_true_q_when_every_path_is_seen_once(gamma):
    units, moves = tree_units()
    got = average(assign("reinforce", units, gamma=gamma).advantage_S, moves)
    assert got == pytest.approx({(s, a): q(s, a, gamma) for s in TREE for a in TREE[s]}, abs=1e-12)


@pytest.mark.parametrize("gamma", [-0.1, 1.5, float("nan")])
def test_a_discount_outside_its_range_is_refused(gamma):
    with pytest.raises(ConfigError, match=r"reinforce: gamma is .*; give a (number from 0 to 1|finite number)"):
        assign("reinforce", random_units(0, forks=False), gamma=gamma)
