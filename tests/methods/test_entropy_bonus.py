"""No enumerable truth exists: the bonus is a heuristic on top of a credit, and changes what it estimates."""

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.units import by_step
from tests.make import random_units, units_of

entropy_bonus = get("entropy_bonus").call


def test_worked_example():
    # (A, H) = (1, .5) (1, 2) (-1, 2) (.2, 1): min(.4 H, |A| / 2) = .2 .5 .5 .1
    steps = [Step(prompt_ids=[0], ids=[1], entropy=[h]) for h in (0.5, 2.0, 2.0, 1.0)]
    units = by_step(Batch.from_trajectories([Trajectory(steps, outcome=1.0)]))
    credit = entropy_bonus(Credit(np.array([1, 1, -1, 0.2]), units))
    np.testing.assert_allclose(credit.advantage_S, [1.2, 1.5, -0.5, 0.3])
    np.testing.assert_allclose(credit.parts["entropy"], [0.2, 0.5, 0.5, 0.1])
    assert credit.units.level == "token"


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    credit = assign("gigpo", random_units(seed, forks=False))
    before = credit.to_tokens().advantage_T.tolist()
    for alpha, kappa in ((0.4, 2.0), (0.1, 5.0), (0.0, 1.5)):
        want, t = [], 0
        for trajectory in credit.units.batch:
            for step in trajectory.steps:
                want += [0.0] * len(step.prompt_ids)
                t += len(step.prompt_ids)
                for h in step.entropy.tolist():
                    want.append(before[t] + min(alpha * h, abs(before[t]) / kappa))
                    t += 1
        got = entropy_bonus(credit, alpha=alpha, kappa=kappa)
        np.testing.assert_allclose(got.to_tokens().advantage_T, want, atol=1e-9)
        np.testing.assert_allclose(sum(got.parts.values()), got.advantage_S, atol=1e-9)
        assert (np.sign(got.to_tokens().advantage_T) == np.sign(before)).all()
        assert got.to_tokens().weight_T.tolist() == credit.to_tokens().weight_T.tolist()


def test_alpha_zero_is_its_input():
    credit = assign("gigpo", random_units(3, forks=False))
    same = entropy_bonus(credit, alpha=0.0)
    assert same.to_tokens().advantage_T.tolist() == credit.to_tokens().advantage_T.tolist()


def test_what_it_refuses():
    units = random_units(1, forks=False)
    with pytest.raises(DataError, match="entropy_bonus reads entropy_S"):
        assign("grpo | entropy_bonus", units_of([0], [1], [("A", 1)]))
    with pytest.raises(ConfigError, match="entropy_bonus: kappa is 1; give a number above 1, or the bonus could turn"):
        assign("grpo | entropy_bonus(kappa=1)", units)
    with pytest.raises(ConfigError, match=r"entropy_bonus: alpha is -0.1; give a number of at least 0"):
        assign("grpo | entropy_bonus(alpha=-0.1)", units)
