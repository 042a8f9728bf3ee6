import random
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from apportion.asks import Verdict
from apportion.assign import assign, cost
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.units import by_step
from tests.asking import answered, asker
from tests.judging import slow_numbers, slow_standard, verdicts, wrong
from tests.make import random_units
from tests.plain import plain


def solutions(*given):
    """(correct, tokens of each step) each."""
    return by_step(
        Batch.from_trajectories(
            [
                Trajectory([Step(prompt_ids=[9], ids=[0] * n) for n in sizes], group="g", outcome=float(correct))
                for correct, sizes in given
            ]
        )
    )


def test_worked_example():
    # tokens judged wrong: 0011 | 00 | 01 | 11; rewards 2 2 1 1 | 2 2 | 0 -1 | -1 -1: mean .7, population std 1.268858
    units = solutions((1, (2, 2)), (1, (2,)), (0, (1, 1)), (0, (2,)))
    values = [wrong(0, 1), wrong(0), wrong(0, 1), wrong(1)]
    credit = get("capo").call(units, answered("capo", units, values, votes=1), votes=1, ddof=0)
    np.testing.assert_allclose(
        credit.advantage_S, [1.024544, 0.236433, 1.024544, -0.551677, -1.339788, -1.339788], atol=1e-6
    )
    tokens = credit.to_tokens()
    sampled = units.batch.sampled_T
    np.testing.assert_allclose(tokens.advantage_T[sampled][:4], [1.024544, 1.024544, 0.236433, 0.236433], atol=1e-6)
    raw = get("capo").call(units, answered("capo", units, values, votes=1), votes=1, scale="none")
    np.testing.assert_allclose(raw.advantage_S + 0.7, [2, 1, 2, 0, -1, -1])


def test_weights_of_the_ablation():
    units = solutions((1, (1, 1)), (0, (1, 1)))
    answers = answered("capo", units, [wrong(0, 1), wrong(1, 0)], votes=1)
    credit = get("capo").call(units, answers, votes=1, whole_weight=2.0, process_weight=5.0, scale="none")
    # rewards 2 -3 | -5 0: mean -1.5
    np.testing.assert_allclose(credit.advantage_S, [3.5, -1.5, -3.5, 1.5])


def test_every_rollout_may_have_one_vote():
    # rewards 2 (6 tokens) and 2, -1 (1 and 1): over tokens the mean is (12 + 2 - 1) / 8, over rollouts (2 + .5) / 2
    units = solutions((1, (6,)), (1, (1, 1)))
    answers = answered("capo", units, [wrong(0), Verdict((0.0, -1.0))], votes=1)
    params = {"votes": 1, "process_weight": 3.0, "scale": "none"}
    by_tokens = get("capo").call(units, answers, **params)
    np.testing.assert_allclose(by_tokens.advantage_S, [2 - 13 / 8, 2 - 13 / 8, -1 - 13 / 8])
    by_rollout = get("capo").call(units, answers, **params, weigh="rollout")
    np.testing.assert_allclose(by_rollout.advantage_S, [0.75, 0.75, -2.25])


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False)
    rng = random.Random(seed)
    for weigh, scale, ddof in product(("token", "unit", "rollout"), ("std", "none"), (0, 1)):
        params = {
            "weigh": weigh,
            "scale": scale,
            "ddof": ddof,
            "epsilon": rng.choice((0.0, 0.1)),
            "aggregate": rng.choice(("intersection", "majority", "union", "mean", "median")),
            "whole_weight": rng.choice((2.0, 1.0)),
            "process_weight": rng.choice((1.0, 0.1)),
        }
        answers = verdicts("capo", units, rng)
        got = get("capo").call(units, answers, **params)
        want, known = slow_capo(units, answers, **params)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        assert got.known_S.tolist() == known


def slow_capo(units, answers, *, weigh, scale, ddof, epsilon, aggregate, whole_weight, process_weight):
    batch, x = plain(units.batch), slow_numbers(units, answers, aggregate)
    rows = []
    for n, r in enumerate(batch):
        for tokens in r.tokens:
            known = r.valid and x[len(rows)] is not None
            reward = whole_weight * r.outcome + process_weight * x[len(rows)] if known else 0.0
            rows.append(SimpleNamespace(known=known, rollout=n, group=r.group, x=reward, tokens=tokens, z=0.0))
    for group in {row.group for row in rows}:
        chosen = [row for row in rows if row.known and row.group == group]
        slow_standard(chosen, weigh=weigh, scale=scale, ddof=ddof, epsilon=epsilon)
    return [row.z if row.known else 0.0 for row in rows], [row.known for row in rows]


def test_when_nothing_is_wrong_and_rollouts_are_one_token_long_it_is_grpo():
    rollouts = [Trajectory([Step(ids=[1], reward=r)], group="g") for r in (1.0, 0.0, 0.0, 3.0)]
    units = by_step(Batch.from_trajectories(rollouts))
    credit = get("capo").call(units, answered("capo", units, [wrong(0)] * 4, votes=1), votes=1)
    np.testing.assert_allclose(credit.advantage_S, get("grpo").call(units).advantage_S)


def test_a_constant_group_gets_exact_zeros():
    units = solutions((1, (1, 2)), (1, (3,)))
    credit = get("capo").call(units, answered("capo", units, [wrong(0, 0), wrong(0)], votes=1), votes=1)
    assert credit.advantage_S.tolist() == [0, 0, 0]
    assert credit.known_S.all()
    assert credit.notes["constant_groups"] == 1


def test_a_rollout_without_a_readable_critique_changes_nobody_elses_credit():
    units = solutions((1, (2, 2)), (0, (1, 1)), (1, (5,)))
    values = [wrong(0, 1), wrong(0, 1), wrong(None)]
    credit = get("capo").call(units, answered("capo", units, values, votes=1), votes=1)
    fewer = solutions((1, (2, 2)), (0, (1, 1)))
    alone = get("capo").call(fewer, answered("capo", fewer, values[:2], votes=1), votes=1)
    np.testing.assert_allclose(credit.advantage_S[:4], alone.advantage_S)
    assert credit.known_S.tolist() == [True] * 4 + [False]


def test_it_asks_four_critiques_of_each_rollout():
    units = solutions((1, (2, 2)), (0, (1, 1)))
    seen = []
    ask = asker(lambda r: (seen.append(r.ask), wrong(0, 1))[1])
    quoted = cost("capo", units, ask=ask)
    credit = assign("capo", units, ask=ask)
    assert quoted.requests == credit.cost.requests == len(seen) == 8
    assert {(a.template, a.votes, a.privileged, a.focus) for a in seen} == {("wrong_steps", 4, False, None)}
    assert credit.advantage_S[0] > credit.advantage_S[1] > credit.advantage_S[3]


def test_what_it_refuses():
    units = solutions((1, (2,)))
    said = answered("capo", units, [wrong(0)])
    for name in ("weigh", "scale", "aggregate"):
        with pytest.raises(ConfigError, match=f"capo: {name} is 'no'; give one of "):
            get("capo").call(units, said, **{name: "no"})
