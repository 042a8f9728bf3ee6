from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_step
from tests.make import random_units, units_of
from tests.plain import plain
from tests.tree import advantages, average, value, whole_batch


def scored(*rollouts):
    made = []
    for scores in rollouts:
        steps = [Step(ids=[1], rewards={} if x is None else {"score": x}) for x in scores]
        made.append(Trajectory(steps, outcome=0.0))
    return by_step(Batch.from_trajectories(made))


def test_worked_example():
    # changes 0, -, .4, -.1; .4 over 1 + 1/2 + 1/4 in shares 1/2 1/4 1/8 ..., -.1 over 1.875
    credit = assign("turn_credit", scored([0.2, None, 0.6, 0.5]))
    np.testing.assert_allclose(credit.advantage_S, [0.050476, 0.100952, 0.201905, -0.053333], atol=5e-7)
    assert credit.advantage_S.sum() == pytest.approx(0.5 - 0.2)


def test_the_score_before_the_first_turn():
    # from .1: the first change is .1 and stays with the first turn
    got = assign("turn_credit", scored([0.2, None, 0.6, 0.5]), start=0.1).advantage_S
    np.testing.assert_allclose(got, [0.150476, 0.100952, 0.201905, -0.053333], atol=5e-7)


def test_extremes_of_gamma():
    units = scored([0.0, 1.0, 4.0])
    assert assign("turn_credit", units, gamma=0.0).advantage_S.tolist() == [0, 1, 3]
    np.testing.assert_allclose(assign("turn_credit", units, gamma=1.0).advantage_S, [1.5, 1.5, 1.0])


def test_no_score_at_all_is_counted():
    blank, graded = [Step(ids=[1]), Step(ids=[1])], [Step(ids=[1], rewards={"score": x}) for x in (0.0, 1.0)]
    rollouts = [Trajectory(blank, outcome=0.0), Trajectory(blank, outcome=1.0), Trajectory(graded, outcome=0.0)]
    units = by_step(Batch.from_trajectories([*rollouts, Trajectory(blank)]))  # the last one nobody judged at all
    credit = assign("turn_credit", units)
    assert credit.advantage_S[:4].tolist() == [0, 0, 0, 0]
    assert credit.notes == {"trajectories_without_score": 2}


def slow_turn_credit(r, t, name, gamma, start):
    scores = [step.rewards.get(name) for step in t.steps]
    out = [0.0] * len(scores)
    before = start
    for k, x in enumerate(scores):
        if x is None:
            continue
        change = 0.0 if before is None else x - before
        before = x
        weights = [gamma ** (k - j) for j in range(k + 1)]
        for j in range(k + 1):
            out[j] += change * weights[j] / sum(weights)
    return out if r.valid else [0.0] * len(out)


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False, parts=True)
    for name, gamma, start in product(["work", "format"], [0.0, 0.5, 1.0], [None, 0.0, -1.5]):
        want = [
            a
            for r, t in zip(plain(units.batch), units.batch.trajectories, strict=True)
            for a in slow_turn_credit(r, t, name, gamma, start)
        ]
        got = assign("turn_credit", units, score=name, gamma=gamma, start=start).advantage_S
        np.testing.assert_allclose(got, want, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_it_sums_to_the_last_score_minus_the_first(gamma):
    rng = np.random.default_rng(1)
    rollouts = [rng.normal(size=n).tolist() for n in (1, 4, 9)]
    units = scored(*rollouts)
    credit = assign("turn_credit", units, gamma=gamma).advantage_S
    for n, scores in enumerate(rollouts):
        assert credit[units.traj_of_S == n].sum() == pytest.approx(scores[-1] - scores[0])


def tree_scores():
    """The score after a step is what was earned so far plus the value of what comes."""
    made, moves = [], []
    for path in whole_batch():
        earned, steps = 0.0, []
        for k, (_, _, reward) in enumerate(path):
            earned += reward
            after = value(path[k + 1][0], 1.0) if k + 1 < len(path) else 0.0
            steps.append(Step(ids=[1], reward=reward, rewards={"score": earned + after}))
        made.append(Trajectory(steps, group="g"))
        moves += [(s, a) for s, a, _ in path]
    return by_step(Batch.from_trajectories(made)), moves


def test_with_exact_scores_and_no_fading_its_mean_is_the_true_advantage():
    units, moves = tree_scores()
    got = assign("turn_credit", units, gamma=0.0, start=value("root", 1.0)).advantage_S
    assert average(got, moves) == pytest.approx(advantages(1.0), abs=1e-12)


def test_without_fading_and_from_zero_it_is_the_reward_of_the_step():
    # a score that is the reward so far: its changes are the rewards, and their sum to go is reinforce
    rng = np.random.default_rng(2)
    rewards = rng.normal(size=6)
    units = scored(np.cumsum(rewards).tolist()).with_reward(rewards)
    np.testing.assert_allclose(assign("turn_credit", units, gamma=0.0, start=0.0).advantage_S, rewards)
    to_go = assign("reinforce", units).advantage_S
    np.testing.assert_allclose(np.cumsum(rewards[::-1])[::-1], to_go)


def test_what_it_refuses():
    units = scored([0.0, 1.0])
    with pytest.raises(ConfigError, match=r"turn_credit: gamma is 1.5; give a number from 0 to 1"):
        assign("turn_credit", units, gamma=1.5)
    with pytest.raises(DataError, match=r"turn_credit reads reward_parts:x, .* lack; give Step.rewards\['x'\]"):
        assign("turn_credit", units, score="x")
    with pytest.raises(DataError, match=r"turn_credit reads reward_parts, which the units .* lack; named parts"):
        assign("turn_credit", units_of([0], [1], [("A", 1)]))
