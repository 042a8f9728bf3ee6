"""No enumerable truth exists: the weights are a heuristic on top of a credit, and change what it estimates."""

import dataclasses
from itertools import product
from math import exp

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.methods import get
from apportion.units import by_step
from tests.make import random_units, units_of

entropy_weight = get("entropy_weight").call


def two_by_two():
    steps = [[Step(prompt_ids=[0], ids=[1], entropy=[h]) for h in pair] for pair in ((0.2, 0.8), (0.5, 1.0))]
    rollouts = [Trajectory(pair, outcome=o, group="g") for pair, o in zip(steps, (1.0, -1.0), strict=True)]
    return Credit(np.array([1.0, 1, -1, -1]), by_step(Batch.from_trajectories(rollouts)))


def test_worked_example():
    # H = .2 .8 | .5 1, H' = 0 .75 .375 1; exp(-H') has mean .631884; bonus .1 exp(-.75), none, .1 exp(-1), none
    plain = entropy_weight(two_by_two(), zeta=0.0, centre=False)
    np.testing.assert_allclose(plain.advantage_S, [1.582569, 0.747553, -1.087683, -0.582195], atol=1e-6)
    bonus = entropy_weight(two_by_two(), centre=False)
    np.testing.assert_allclose(bonus.advantage_S, [1.629806, 0.747553, -1.050895, -0.582195], atol=1e-6)
    whole = entropy_weight(two_by_two())
    np.testing.assert_allclose(whole.advantage_S, [1.443739, 0.561486, -1.236962, -0.768262], atol=1e-6)
    assert set(whole.parts) == {"credit", "future", "centre"}


def slow(credit, k, k_future, zeta, centre, epsilon):
    units, S = credit.units, range(len(credit.units))
    steps = [step for trajectory in units.batch for step in trajectory.steps]
    H = [sum(step.entropy.tolist()) / max(len(step.entropy), 1) for step in steps]
    use = [bool(credit.known_S[s] and credit.train_S[s] and len(steps[s].ids)) for s in S]
    seen = [H[s] for s in S if use[s]]
    spread = max(seen) - min(seen)
    level = [(h - min(seen)) / (spread + epsilon) if spread > 1e-9 * max(seen) else 0.0 for h in H]
    mean = sum(exp(-k * level[s]) for s in S if use[s]) / len(seen)
    out = credit.advantage_S.tolist()
    for s in S:
        if use[s]:
            out[s] *= exp(-k * level[s]) / mean
            after = [c for c in S if units.parent_S[c] == s]
            if after and use[after[0]]:
                out[s] += zeta * exp(-k_future * level[after[0]])
    shift = sum(out[s] for s in S if use[s]) / len(seen) if centre else 0.0
    return [out[s] - shift if use[s] else out[s] for s in S]


@pytest.mark.parametrize("forks", [True, False])
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, forks):
    base = assign("dr_grpo", random_units(seed, forks=forks))
    drawn = np.random.default_rng(seed).random(len(base.units)) < 0.8
    for credit in (base, dataclasses.replace(base, train_S=drawn)):
        for k, k_future, zeta, centre, epsilon in product([1.0, 0.3], [1.0, 2.0], [0.1], [True, False], [0.0, 0.1]):
            got = entropy_weight(credit, k=k, k_future=k_future, zeta=zeta, centre=centre, epsilon=epsilon)
            np.testing.assert_allclose(got.advantage_S, slow(credit, k, k_future, zeta, centre, epsilon), atol=1e-9)


def test_without_weight_bonus_and_centring_it_is_its_input():
    credit = assign("gigpo", random_units(3, forks=False))
    same = entropy_weight(credit, k=0.0, zeta=0.0, centre=False)
    np.testing.assert_allclose(same.advantage_S, credit.advantage_S, atol=1e-12)
    np.testing.assert_allclose(same.parts["step"], credit.parts["step"], atol=1e-12)


def test_equal_entropies_weigh_alike():
    step = Step(prompt_ids=[0], ids=[1], entropy=[0.3])
    units = by_step(Batch.from_trajectories([Trajectory([step] * 2, outcome=o, group="g") for o in (1.0, 0.0)]))
    got = entropy_weight(Credit(np.array([1.0, 1, -1, -1]), units), zeta=0.0)
    assert got.advantage_S.tolist() == [1, 1, -1, -1]


def test_the_mean_weight_is_one():
    credit = Credit(np.ones(4), two_by_two().units)
    assert entropy_weight(credit, zeta=0.0, centre=False, k=3.0).advantage_S.mean() == pytest.approx(1.0)


def test_nothing_counted_is_left_alone():
    credit = dataclasses.replace(two_by_two(), train_S=np.zeros(4, dtype=bool))
    assert entropy_weight(credit).advantage_S.tolist() == [1, 1, -1, -1]


def test_what_it_refuses():
    with pytest.raises(DataError, match="entropy_weight reads entropy_S"):
        assign("grpo | entropy_weight", units_of([0], [1], [("A", 1)]))
