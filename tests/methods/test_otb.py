import math

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_step, by_token
from tests.make import random_trajectories
from tests.methods.test_mt_grpo import centred_per_state
from tests.plain import plain, spread
from tests.tree import advantages, average, whole_batch


def tokens(*rollouts, **columns):
    """One group; (outcome, probabilities, sums of squares) for each rollout."""
    made = []
    for i, (outcome, pi, square) in enumerate(rollouts):
        extra = {name: values[i] for name, values in columns.items()}
        step = Step(ids=[1] * len(pi), logp=np.log(pi), columns={"prob_square": square, **extra})
        made.append(Trajectory([step], outcome=outcome, group="g"))
    return by_token(Batch.from_trajectories(made))


LONG, SHORT = (1.0, [0.5, 0.9, 0.8], [0.4, 0.82, 0.66]), (0.0, [0.5, 0.2], [0.4, 0.3])


def test_worked_example():
    # w .4 .02 .06 and .4 .9, so W .4 .42 .48 and .4 1.3; baselines .4/.8 = .5, .42/1.72 = .244186, none at the tail
    units = tokens(LONG, SHORT)
    got = assign("otb", units, epsilon=1e-8).advantage_S
    np.testing.assert_allclose(got, [0.5, 0.755814, 1.0, -0.5, -0.244186], atol=5e-7)
    got = assign("otb", units, zero_tail=False).advantage_S
    np.testing.assert_allclose(got, [0.5, 0.755814, 0.0, -0.5, -0.244186], atol=5e-7)


def test_importance_weights_are_squared_into_the_weight_of_their_token():
    # a weight of 2 on the first token of the long one: W 1.6 against .4, baseline .8
    units = tokens(LONG, SHORT, rollout=[[2.0, 1.0, 1.0], [1.0, 1.0]])
    got = assign("otb", units, weight="rollout").advantage_S
    np.testing.assert_allclose(got[[0, 1]], [0.2, 1 - 1.62 / 2.92])


def test_a_group_of_one_equal_outcomes_and_certain_tokens():
    assert assign("otb", tokens(LONG)).advantage_S.tolist() == [0, 0, 0]
    assert assign("otb", tokens(LONG), group_of_one="raw").advantage_S.tolist() == [1, 1, 1]
    same = tokens((0.3, *LONG[1:]), (0.3, *SHORT[1:]))
    assert assign("otb", same, zero_tail=False).advantage_S.tolist() == [0, 0, 0, 0, 0]
    certain = tokens((1.0, [1.0], [1.0]), (0.0, [1.0], [1.0]))  # nothing weighs: the plain mean
    assert assign("otb", certain).advantage_S.tolist() == [0.5, -0.5]


def slow_otb(rollouts, trajectories, gamma, zero_tail, weight, epsilon, group_of_one):
    flat = []  # per rollout: returns and weights so far, token by token
    for r, t in zip(rollouts, trajectories, strict=True):
        n, w = sum(r.tokens), []
        rewards = [0.0] * n  # of a step at its last token; with none, at the token before, else at the first
        for s, step in enumerate(t.steps):
            squares = step.columns["prob_square"]
            factor = step.columns[weight] if weight else [1.0] * len(squares)
            w += [(1 - 2 * math.exp(p) + q) * f * f for p, q, f in zip(step.logp, squares, factor, strict=True)]
            if n:
                rewards[max(sum(r.tokens[: s + 1]) - 1, 0)] += r.rewards[s]
        g = [sum(gamma ** (k - i) * rewards[k] for k in range(i, n)) for i in range(n)]
        flat.append((g, np.cumsum(w).tolist()))
    for (g, _), r in zip(flat, rollouts, strict=True):
        group = [f for f, o in zip(flat, rollouts, strict=True) if o.group == r.group and o.valid]
        for i in range(len(g)):
            if not r.valid:
                yield 0.0
                continue
            here = [(x[i], W[i]) for x, W in group if len(x) > i]
            if len(group) == 1:
                yield g[i] if group_of_one == "raw" else 0.0
            elif len(here) == 1:
                yield g[i] if zero_tail else 0.0
            else:
                values = [x for x, _ in here]
                if not spread(values, 0) and not epsilon:
                    yield 0.0
                    continue
                yield g[i] - sum(x * W for x, W in here) / (sum(W for _, W in here) + epsilon)


def with_squares(seed):
    """A random batch whose columns are possible."""
    import dataclasses

    rng = np.random.default_rng(seed)
    out = []
    for t in random_trajectories(seed, forks=False):
        steps = []
        for step in t.steps:
            p = np.exp(np.asarray(step.logp))
            columns = {"prob_square": rng.uniform(p**2, p**2 + (1 - p) ** 2), "ratio": rng.uniform(0.5, 2, len(p))}
            steps.append(dataclasses.replace(step, columns=columns))
        out.append(dataclasses.replace(t, steps=steps))
    return Batch.from_trajectories(out)


MODES = [
    {},
    {"gamma": 0.9, "epsilon": 0.1},
    {"zero_tail": False, "weight": "ratio"},
    {"group_of_one": "raw", "weight": "ratio", "epsilon": 1e-8},
]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, mode):
    batch = with_squares(seed)
    how = {"gamma": 1.0, "zero_tail": True, "weight": None, "epsilon": 0.0, "group_of_one": "zero", **mode}
    want = list(slow_otb(plain(batch), batch.trajectories, **how))
    np.testing.assert_allclose(assign("otb", by_token(batch), **mode).advantage_S, want, atol=1e-9)


def tree_tokens():
    """The decision tree with one token a step; every gradient weighs the same."""
    made, moves = [], []
    for path in whole_batch():
        steps = [
            Step(prompt_ids=[0], ids=[1], state=s, reward=r, logp=[math.log(0.5)], columns={"prob_square": [0.5]})
            for s, _, r in path
        ]
        made.append(Trajectory(steps, group="g"))
        moves += [(s, a) for s, a, _ in path]
    return Batch.from_trajectories(made), moves


def test_where_all_gradients_weigh_the_same_it_is_the_comparison_turn_by_turn():
    batch, _ = tree_tokens()
    want = assign("mt_grpo", by_step(batch), form="members").advantage_S
    np.testing.assert_allclose(assign("otb", by_token(batch), zero_tail=False).advantage_S, want, atol=1e-12)


def test_its_gradient_is_the_true_one_on_the_whole_tree():
    batch, moves = tree_tokens()
    got = average(assign("otb", by_token(batch)).advantage_S, moves)
    assert centred_per_state(got, moves) == pytest.approx(advantages(1.0), abs=1e-12)


def test_the_baseline_has_the_least_weighted_variance():
    rng = np.random.default_rng(3)
    p = rng.uniform(0.1, 0.9, size=6)
    units = tokens(*((float(rng.normal()), [x], [x * x + (1 - x) ** 2 / 2]) for x in p))
    w, g = 1 - 2 * p + units.columns["prob_square"], units.reward_S
    baseline = (g - assign("otb", units).advantage_S)[0]
    grid = np.linspace(-3, 3, 6001)
    loss = (w[:, None] * (g[:, None] - grid) ** 2).sum(axis=0)
    assert grid[loss.argmin()] == pytest.approx(baseline, abs=6e-4)


def test_what_it_refuses():
    units = tokens(LONG, SHORT)
    with pytest.raises(
        DataError, match=r"otb: prob_square of token 0 is 0.1, less than the square of its own probabil"
    ):
        assign("otb", tokens((1.0, [0.9], [0.1])))
    with pytest.raises(DataError, match="otb reads column:ratio, which the units"):
        assign("otb", units, weight="ratio")
    with pytest.raises(ConfigError, match="otb: group_of_one is 'x'"):
        assign("otb", units, group_of_one="x")
    with pytest.raises(DataError, match="otb credits tokens, the units are steps; cut the batch with by_token"):
        assign("otb", by_step(units.batch))
