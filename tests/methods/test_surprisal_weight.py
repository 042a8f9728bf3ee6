"""No enumerable truth exists: the weights are a heuristic on top of a credit, and change what it estimates."""

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.methods import get
from apportion.units import by_step
from tests.make import random_units, units_of

surprisal_weight = get("surprisal_weight").call


def test_worked_example():
    # s = .1 .1 1 2.8, mean 1: factors 1 + .1 (s - 1)
    step = Step(prompt_ids=[0], ids=[1, 2, 3, 4], logp=[-0.1, -0.1, -1.0, -2.8], reward=2.0)
    credit = surprisal_weight(Credit(np.array([2.0]), by_step(Batch.from_trajectories([Trajectory([step])]))))
    np.testing.assert_allclose(credit.advantage_S, [1.82, 1.82, 2.0, 2.36])
    floor = surprisal_weight(Credit(np.array([2.0]), by_step(Batch.from_trajectories([Trajectory([step])]))), beta=2.0)
    np.testing.assert_allclose(floor.advantage_S, [0, 0, 2.0, 9.2], atol=1e-12)


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    credit = assign("gigpo", random_units(seed, forks=False))
    before = credit.to_tokens().advantage_T.tolist()
    for beta in (0.0, 0.1, 1.0, 3.0):
        want, t = [], 0
        for trajectory in credit.units.batch:
            own = [-x for step in trajectory.steps for x in step.logp.tolist()]
            for step in trajectory.steps:
                want += [0.0] * len(step.prompt_ids)
                t += len(step.prompt_ids)
                for logp in step.logp.tolist():
                    want.append(before[t] * max(0.0, 1 + beta * (-logp * len(own) / sum(own) - 1)))
                    t += 1
        got = surprisal_weight(credit, beta=beta)
        np.testing.assert_allclose(got.to_tokens().advantage_T, want, atol=1e-9)
        np.testing.assert_allclose(sum(got.parts.values()), got.advantage_S, atol=1e-9)


def test_beta_zero_is_its_input():
    credit = assign("gigpo", random_units(3, forks=False))
    same = surprisal_weight(credit, beta=0.0)
    assert same.to_tokens().advantage_T.tolist() == credit.to_tokens().advantage_T.tolist()


def test_the_mean_weight_of_a_rollout_is_one():
    units = random_units(3, forks=False)
    once = surprisal_weight(Credit(np.ones(len(units)), units), beta=0.9)
    total, size = (np.bincount(once.units.traj_of_S, weights=w) for w in (once.advantage_S, np.ones(len(once.units))))
    np.testing.assert_allclose(total[units.valid_N], size[units.valid_N])


def test_a_rollout_that_was_certain_throughout_keeps_its_credit():
    step = Step(prompt_ids=[0], ids=[1, 2], logp=[0.0, 0.0], reward=1.0)
    credit = Credit(np.array([0.5]), by_step(Batch.from_trajectories([Trajectory([step])])))
    assert surprisal_weight(credit).advantage_S.tolist() == [0.5, 0.5]


def test_what_it_refuses():
    with pytest.raises(DataError, match="surprisal_weight reads logp_S"):
        assign("grpo | surprisal_weight", units_of([0], [1], [("A", 1)]))
