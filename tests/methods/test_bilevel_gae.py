import math
from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_token, by_turn
from tests.make import random_batch
from tests.methods.test_turn_gae import fixture
from tests.plain import plain
from tests.tree import advantages, average, value, whole_batch

TABLE = {
    (1.0, 1.0, 1.0): [1, 0.85, 0.7, 0.25, 0.1, 0.15],
    (1.0, 1.0, 0.95): [0.9125, 0.7625, 0.6125, 0.2, 0.05, 0.15],
    (1.0, 0.95, 1.0): [0.913307, 0.803481, 0.687875, 0.237875, 0.0925, 0.15],
    (1.0, 0.95, 0.95): [0.837334, 0.72351, 0.603695, 0.190731, 0.042875, 0.15],
    (0.99, 0.9, 0.99): [0.801515, 0.734023, 0.659959, 0.209959, 0.07515, 0.15],
    (0.99, 0.9, 0.95): [0.750395, 0.67665, 0.595566, 0.174853, 0.03575, 0.15],
}


@pytest.mark.parametrize(("gamma", "lam", "turn_gamma"), TABLE)
@pytest.mark.parametrize("inner", ["count", "drop"])
def test_worked_example(gamma, lam, turn_gamma, inner):
    # (1, 1, .95): outer .15, -.2 + .95 * .85 - .7 + .95 * .15 = .05, .3 + .95 * .7 - .4 + .95 * .05 = .6125
    credit = assign("bilevel_gae", by_token(fixture()), gamma=gamma, lam=lam, turn_gamma=turn_gamma, inner=inner)
    np.testing.assert_allclose(credit.advantage_S, TABLE[gamma, lam, turn_gamma], atol=5e-7)


GAE = {
    (1.0, 1.0): [1, 0.85, 0.7, 0.25, 0.1, 0.15],
    (1.0, 0.95): [0.902573, 0.792182, 0.675981, 0.237875, 0.0925, 0.15],
    (0.99, 0.9): [0.77898, 0.708732, 0.631573, 0.209959, 0.07515, 0.15],
}


@pytest.mark.parametrize(("gamma", "lam"), GAE)
def test_worked_example_of_the_token_column(gamma, lam):
    got = assign("gae", by_token(fixture()), gamma=gamma, lam=lam).advantage_S
    np.testing.assert_allclose(got, GAE[gamma, lam], atol=5e-7)


def test_a_turn_without_reward_is_a_turn_and_inner_rewards_are_counted_or_dropped():
    # two turns; the second holds two steps with rewards 2 and 1; all values 0, turn discount 1/2
    steps = [
        Step(prompt_ids=[9], ids=[1], token_values=[0.0], reward=0.0),
        Step(prompt_ids=[9], ids=[1], token_values=[0.0], reward=2.0),
        Step(prompt_ids=[], ids=[1], token_values=[0.0], reward=1.0),
    ]
    units = by_token(Batch.from_trajectories([Trajectory(steps)]))
    assert units.turn_S.tolist() == [0, 1, 1]
    assert assign("bilevel_gae", units, turn_gamma=0.5).advantage_S.tolist() == [1.5, 3, 1]
    assert assign("bilevel_gae", units, turn_gamma=0.5, inner="drop").advantage_S.tolist() == [0.5, 3, 1]


def slow_bilevel(r, values, turns, rewards, gamma, lam, turn_gamma, inner):
    n = len(values)
    out = [0.0] * n
    after = r.final if r.truncated and r.final is not None else 0.0
    spans = []  # first and last token of each turn
    for t in range(n):
        if t and turns[t] == turns[t - 1]:
            spans[-1][1] = t
        else:
            spans.append([t, t])
    carry = 0.0
    for k in range(len(spans) - 1, -1, -1):
        first, end = spans[k]
        nxt = after
        if k + 1 < len(spans):
            nxt = values[spans[k + 1][1]]
            if inner == "count":
                nxt += sum(rewards[spans[k + 1][0] : spans[k + 1][1]])
        carry = rewards[end] + turn_gamma * nxt - values[end] + turn_gamma * lam * carry
        out[end] = carry
        for t in range(end - 1, first - 1, -1):
            out[t] = rewards[t] + gamma * values[t + 1] - values[t] + gamma * lam * out[t + 1]
    return out if r.valid else [0.0] * n


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    batch = random_batch(seed, forks=False)
    flat, at = [], 0
    for t, r in zip(batch.trajectories, plain(batch), strict=True):
        values = [float(v) for step in t.steps for v in step.token_values]
        turns = [int(batch.turn_S[at + s]) for s, n in enumerate(r.tokens) for _ in range(n)]
        at += len(t.steps)
        rewards = [0.0] * len(values)
        for s, reward in enumerate(
            r.rewards
        ):  # at the step's last token; with none at the token before, else the first
            if values:
                rewards[max(sum(r.tokens[: s + 1]) - 1, 0)] += reward
        flat.append((r, values, turns, rewards))
    units = by_token(batch)
    for gamma, lam, turn_gamma, inner in product([1.0, 0.9], [0.0, 0.8, 1.0], [1.0, 0.7], ["count", "drop"]):
        want = [a for row in flat for a in slow_bilevel(*row, gamma, lam, turn_gamma, inner)]
        got = assign("bilevel_gae", units, gamma=gamma, lam=lam, turn_gamma=turn_gamma, inner=inner).advantage_S
        np.testing.assert_allclose(got, want, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_without_discount_it_is_gae(seed):
    units = by_token(random_batch(seed, forks=False))
    got = assign("bilevel_gae", units, gamma=1.0, lam=1.0, turn_gamma=1.0).advantage_S
    np.testing.assert_allclose(got, assign("gae", units, gamma=1.0, lam=1.0).advantage_S, atol=1e-9)


def test_with_discount_it_is_not():
    # tokens and turns are counted apart: the largest difference on the fixture is .063
    units = by_token(fixture())
    got = assign("bilevel_gae", units, gamma=0.9, lam=1.0, turn_gamma=0.9).advantage_S
    want = assign("gae", units, gamma=0.9, lam=1.0).advantage_S
    assert np.abs(got - want).max() == pytest.approx(0.063, abs=5e-4)


@pytest.mark.parametrize(("gamma", "lam"), list(product([1.0, 0.8], [0.0, 0.5, 1.0])))
def test_with_exact_values_its_mean_is_the_true_advantage(gamma, lam):
    # one token a turn: only the clock of the turns runs
    made, moves = [], []
    for path in whole_batch():
        steps = [
            Step(prompt_ids=[0], ids=[1], reward=r, token_values=[value(s, gamma)], logp=[math.log(0.5)])
            for s, _, r in path
        ]
        made.append(Trajectory(steps, group="g"))
        moves += [(s, a) for s, a, _ in path]
    units = by_token(Batch.from_trajectories(made))
    got = average(assign("bilevel_gae", units, gamma=0.3, lam=lam, turn_gamma=gamma).advantage_S, moves)
    assert got == pytest.approx(advantages(gamma), abs=1e-12)


def test_what_it_refuses():
    with pytest.raises(ConfigError, match="bilevel_gae: inner is 'lose'; give one of 'count', 'drop'"):
        assign("bilevel_gae", by_token(fixture()), inner="lose")
    with pytest.raises(DataError, match="bilevel_gae credits tokens, the units are turns; cut the batch with by_token"):
        assign("bilevel_gae", by_turn(fixture()))
