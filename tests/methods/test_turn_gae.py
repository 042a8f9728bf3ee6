from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_step, by_token, by_turn
from tests.make import random_batch
from tests.plain import plain
from tests.tree import advantages, average, tree_units

VALUES = [[0.10, 0.25, 0.40], [0.55, 0.70], [0.85]]
REWARDS = [0.3, -0.2, 1.0]


def fixture():
    """Six sampled tokens in three turns, an observation token between the turns; rewards at the turns' ends."""
    steps = [
        Step(prompt_ids=[9] if k else [], ids=[1] * len(v), token_values=v, reward=r)
        for k, (v, r) in enumerate(zip(VALUES, REWARDS, strict=True))
    ]
    return Batch.from_trajectories([Trajectory(steps)])


TABLE = {
    (1.0, 1.0): ([1, 0.25, 0.15], [0.7, 0.1, 0.15]),
    (1.0, 0.95): ([0.980375, 0.2425, 0.15], [0.687875, 0.0925, 0.15]),
    (0.99, 0.9): ([0.945109, 0.22515, 0.15], [0.659959, 0.07515, 0.15]),
}


@pytest.mark.parametrize(("gamma", "lam"), TABLE)
@pytest.mark.parametrize("anchor", ["first", "last"])
def test_worked_example(gamma, lam, anchor):
    # first anchor, (.99, .9): d = .3 + .99 * .55 - .1 = .7445, -.2 + .99 * .85 - .55 = .0915, 1 - .85
    credit = assign("turn_gae", by_turn(fixture()), gamma=gamma, lam=lam, anchor=anchor)
    np.testing.assert_allclose(credit.advantage_S, TABLE[gamma, lam][anchor == "last"], atol=5e-7)


def test_worked_example_of_the_critics_target_and_of_the_whitened_tokens():
    units = by_turn(fixture())
    for anchor, value in (("first", [0.1, 0.55, 0.85]), ("last", [0.4, 0.7, 0.85])):
        credit = assign("turn_gae", units, gamma=1.0, lam=1.0, anchor=anchor)
        np.testing.assert_allclose(credit.advantage_S + value, [1.1, 0.8, 1.0])
    white = assign("turn_gae(gamma=1, lam=1) | whiten", units)
    np.testing.assert_allclose(white.advantage_S, [0.909583, -0.832171, -1.064405], atol=5e-7)


def slow_turn_gae(t, r, turns, gamma, lam, anchor):
    """Turns as lists of step indices."""
    values, rewards = [], []
    for turn in turns:
        first = t.steps[turn[0]]
        value = first.value
        held = [s for s in turn if r.tokens[s]]
        if anchor == "last" and held:
            value = t.steps[held[-1]].token_values[-1]
        values.append(value)
        rewards.append(sum(r.rewards[s] for s in turn))
    values.append(r.final if r.truncated and r.final is not None else 0.0)
    n = len(rewards)
    d = [rewards[k] + gamma * values[k + 1] - values[k] for k in range(n)]
    return [sum((gamma * lam) ** (j - k) * d[j] for j in range(k, n)) if r.valid else 0.0 for k in range(n)]


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    batch = random_batch(seed, forks=False)
    units = by_turn(batch)
    turns, at = [], 0
    for t in batch.trajectories:
        told = batch.turn_S[at : at + len(t.steps)].tolist()
        at += len(t.steps)
        mine = [[0]]
        for s in range(1, len(told)):
            if told[s] == told[s - 1]:
                mine[-1].append(s)
            else:
                mine.append([s])
        turns.append(mine)
    for gamma, lam, anchor in product([1.0, 0.9], [0.0, 0.8, 1.0], ["first", "last"]):
        want = [
            a
            for t, r, mine in zip(batch.trajectories, plain(batch), turns, strict=True)
            for a in slow_turn_gae(t, r, mine, gamma, lam, anchor)
        ]
        got = assign("turn_gae", units, gamma=gamma, lam=lam, anchor=anchor).advantage_S
        np.testing.assert_allclose(got, want, atol=1e-9)


@pytest.mark.parametrize("anchor", ["first", "last"])
@pytest.mark.parametrize("seed", range(5))
def test_with_one_token_a_turn_it_is_gae(seed, anchor):
    units = by_token(random_batch(seed, forks=False))
    want = assign("gae", units, gamma=0.9, lam=0.8).advantage_S
    got = assign("turn_gae", units, gamma=0.9, lam=0.8, anchor=anchor).advantage_S
    np.testing.assert_allclose(got, want, atol=1e-12)


@pytest.mark.parametrize(("gamma", "lam"), list(product([1.0, 0.8], [0.0, 0.5, 1.0])))
def test_with_exact_values_its_mean_is_the_true_advantage(gamma, lam):
    units, moves = tree_units(gamma)
    got = average(assign("turn_gae", units, gamma=gamma, lam=lam).advantage_S, moves)
    assert got == pytest.approx(advantages(gamma), abs=1e-12)


def test_what_it_refuses():
    with pytest.raises(ConfigError, match="turn_gae: anchor is 'middle'; give one of 'first', 'last'"):
        assign("turn_gae", by_turn(fixture()), anchor="middle")
    units = by_step(Batch.from_trajectories([Trajectory([Step(ids=[1], value=0.5, reward=1.0)])]))
    with pytest.raises(DataError, match=r"turn_gae\(anchor='last'\) reads the value before each unit's last token, wh"):
        assign("turn_gae", units, anchor="last")
