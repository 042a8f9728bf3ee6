import random
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from apportion.asks import Verdict
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.methods import get
from apportion.units import by_step, by_turn
from tests.asking import answered, asker
from tests.judging import slow_numbers, slow_standard, verdicts
from tests.make import random_units
from tests.plain import plain, spread


def searches(*given):
    """(outcome, number of turns) each."""
    return by_turn(
        Batch.from_trajectories(
            [
                Trajectory([Step(observation="q", action="a") for _ in range(turns)], group="g", outcome=float(r))
                for r, turns in given
            ]
        )
    )


def test_worked_example():
    # outcomes 1, 0: ±.707107. Labels + - | - : mean -1/3, sample std 1.154701, so z = 1.154701, -.577350 | -.577350
    units = searches((1, 2), (0, 1))
    answers = answered("critic_search", units, [Verdict((1.0, -1.0)), Verdict((-1.0,))])
    credit = get("critic_search").call(units, answers)
    np.testing.assert_allclose(credit.advantage_S, [1.861807, 0.129757, -1.284457], atol=1e-6)
    half = get("critic_search").call(units, answers, weight=0.5)
    np.testing.assert_allclose(half.advantage_S, [1.284457, 0.418432, -0.995782], atol=1e-6)


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
            "votes": 2,
            "weight": rng.choice((1.0, 0.4)),
            "aggregate": rng.choice(("intersection", "majority", "union", "mean", "median")),
        }
        answers = verdicts("critic_search", units, rng, votes=2)
        got = get("critic_search").call(units, answers, **params)
        want, known = slow_search(units, answers, **params)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        assert got.known_S.tolist() == known


def slow_search(units, answers, *, weigh, scale, ddof, epsilon, votes, weight, aggregate):
    batch, x = plain(units.batch), slow_numbers(units, answers, aggregate)
    rows = []
    for n, r in enumerate(batch):
        for tokens in r.tokens:
            known = r.valid and x[len(rows)] is not None
            rows.append(SimpleNamespace(known=known, rollout=n, group=r.group, x=x[len(rows)], tokens=tokens, z=0.0))
    out = []
    for group in {row.group for row in rows}:
        chosen = [row for row in rows if row.known and row.group == group]
        slow_standard(chosen, weigh=weigh, scale=scale, ddof=ddof, epsilon=epsilon)
    for row in rows:
        peers = [r.outcome for r in batch if r.group == row.group and r.valid]
        std = spread(peers, ddof)
        alone = len(peers) < 2 or not std
        if not row.known:
            out.append(0.0)
            continue
        gap = 0.0 if alone else batch[row.rollout].outcome - sum(peers) / len(peers)
        out.append(gap / (std + epsilon if scale == "std" and not alone else 1.0) + weight * row.z)
    return out, [row.known for row in rows]


def test_without_labels_of_weight_it_is_grpo():
    units = random_units(4, forks=False)
    answers = verdicts("critic_search", units, random.Random(2))
    credit = get("critic_search").call(units, answers, weight=0.0)
    want = np.where(credit.known_S, get("grpo").call(units).advantage_S, 0.0)
    np.testing.assert_allclose(credit.advantage_S, want, atol=1e-12)


def test_labels_that_are_the_outcome_change_no_order():
    # an exact answer is not to be had: the label is an opinion. A judge that repeats the outcome adds a multiple of it.
    units = by_step(searches((1, 2), (0, 2)).batch)
    answers = answered("critic_search", units, [Verdict((1.0, 1.0)), Verdict((-1.0, -1.0))])
    credit = get("critic_search").call(units, answers)
    np.testing.assert_allclose(credit.parts["judge"], [0.866025, 0.866025, -0.866025, -0.866025], atol=1e-6)
    np.testing.assert_allclose(credit.parts["outcome"], [0.707107, 0.707107, -0.707107, -0.707107], atol=1e-6)


def test_it_asks_for_privileged_verdicts():
    units = searches((1, 2), (0, 1))
    seen = []
    ask = asker(lambda r: (seen.append(r.ask), Verdict((1.0,) * len(r.ask.units)))[1])
    credit = assign("critic_search", units, ask=ask)
    assert {(a.template, a.votes, a.privileged) for a in seen} == {("search_turns", 1, True)}
    assert credit.cost.requests == len(seen) == 2
    assign("critic_search", units, ask=ask, privileged=False, template="labels")
    assert (seen[-1].template, seen[-1].privileged) == ("labels", False)


def test_what_it_refuses():
    units = searches((1, 1))
    said = answered("critic_search", units, [Verdict((1.0,))])
    for name in ("weigh", "scale", "aggregate"):
        with pytest.raises(ConfigError, match=f"critic_search: {name} is 'no'; give one of "):
            get("critic_search").call(units, said, **{name: "no"})
