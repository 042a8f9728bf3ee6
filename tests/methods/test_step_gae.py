from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.units import by_step, by_turn
from tests.make import random_units
from tests.methods.test_gae import slow_gae
from tests.plain import plain
from tests.tree import advantages, average, tree_units


def valued(*rollouts):
    """(value, reward) of each step; several tokens a step, so that counting tokens would show."""
    made = []
    for rows in rollouts:
        made.append(Trajectory([Step(ids=[1] * (k + 1), value=v, reward=r) for k, (v, r) in enumerate(rows)]))
    return by_step(Batch.from_trajectories(made))


PAPER = valued([(0.3, 0), (0.5, 0), (0.8, 1)], [(0.3, 0), (0.2, 0)])


def test_worked_example():
    # d = 0 + .99 * .5 - .3 = .195, .99 * .8 - .5 = .292, 1 - .8 = .2; A1 = .292 + .9405 * .2, A0 = .195 + .9405 * A1
    credit = assign("step_gae", PAPER, gamma=0.99, lam=0.95)
    np.testing.assert_allclose(credit.advantage_S, [0.646534, 0.4801, 0.2, -0.2901, -0.2], atol=5e-7)
    returns = credit.advantage_S + PAPER.value_S
    np.testing.assert_allclose(returns, [0.946534, 0.9801, 1.0, 0.0099, 0.0], atol=5e-7)


def test_worked_example_whitened_over_rows():
    # mean .167307, sample std .410092
    credit = assign("step_gae(gamma=0.99, lam=0.95) | whiten(over='unit')", PAPER)
    want = [1.168584, 0.762739, 0.079722, -1.115376, -0.895669]
    np.testing.assert_allclose(credit.advantage_S, want, atol=2e-6)


def test_without_discount_it_is_the_outcome_minus_the_value():
    np.testing.assert_allclose(assign("step_gae", PAPER).advantage_S[:3], [0.7, 0.5, 0.2])


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False)
    for gamma, lam in product([1.0, 0.9], [0.0, 0.95, 1.0]):
        want = [a if r.valid else 0.0 for r in plain(units.batch) for a in slow_gae(r, gamma, lam)]
        np.testing.assert_allclose(assign("step_gae", units, gamma=gamma, lam=lam).advantage_S, want, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_gae_over_steps(seed):
    units = random_units(seed, forks=False)
    got, want = (assign(name, units, gamma=0.9, lam=0.8).advantage_S for name in ("step_gae", "gae"))
    assert got.tolist() == want.tolist()


@pytest.mark.parametrize(("gamma", "lam"), list(product([1.0, 0.8], [0.0, 0.5, 1.0])))
def test_with_exact_values_its_mean_is_the_true_advantage(gamma, lam):
    units, moves = tree_units(gamma)
    got = average(assign("step_gae", units, gamma=gamma, lam=lam).advantage_S, moves)
    assert got == pytest.approx(advantages(gamma), abs=1e-12)


def test_a_truncated_rollout_goes_on_with_its_final_value():
    steps = [Step(ids=[1], value=0.5, reward=0.0), Step(ids=[1], value=0.6, reward=0.0, truncated=True)]
    units = by_step(Batch.from_trajectories([Trajectory(steps, final_value=0.7), Trajectory(steps)]))
    credit = assign("step_gae", units)
    np.testing.assert_allclose(credit.advantage_S, [0.2, 0.1, -0.5, -0.6])
    assert credit.notes == {"truncated_without_value": 1}


def test_what_it_refuses():
    with pytest.raises(DataError, match="step_gae credits steps, the units are turns; cut the batch with by_step"):
        assign("step_gae", by_turn(PAPER.batch))
    bare = by_step(Batch.from_trajectories([Trajectory([Step(ids=[1], reward=1.0)])]))
    with pytest.raises(DataError, match=r"step_gae reads value_S, which the units \(cut by step\) lack"):
        assign("step_gae", bare)
