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
from tests.judging import slow_numbers, slow_standard, verdicts
from tests.make import random_units

TEN = (0.0, 10.0)


def team(*sizes, **fields):
    return Trajectory([Step(prompt_ids=[9], ids=[0] * n, agent=f"agent{k}") for k, n in enumerate(sizes)], **fields)


def scored(units, *scores):
    """One answer for each unit."""
    size_N = np.bincount(units.traj_of_S)
    place = [k for n in size_N for k in range(n)]
    values = [
        Verdict(tuple(score if j == k else None for j in range(size_N[n])), scale=TEN)
        for n, k, score in zip(units.traj_of_S, place, scores, strict=True)
    ]
    return answered("mappa", units, values)


def test_worked_example():
    # scores 10, 5 | 0 of 1, 2 and 1 tokens: x = 1, 0, 0, -1 over tokens, mean 0, sample std sqrt(2/3)
    units = by_step(Batch.from_trajectories([team(1, 2), team(1)]))
    credit = get("mappa").call(units, scored(units, 10.0, 5.0, 0.0))
    np.testing.assert_allclose(credit.advantage_S, [1.224745, 0, -1.224745], atol=1e-6)
    plain = get("mappa").call(units, scored(units, 10.0, 5.0, 0.0), scale="none")
    np.testing.assert_allclose(plain.advantage_S, [1, 0, -1])


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False)
    rng = random.Random(seed)
    for weigh, scale, within in product(("token", "unit", "rollout"), ("std", "none"), ("batch", "group")):
        params = {
            "weigh": weigh,
            "scale": scale,
            "within": within,
            "ddof": rng.choice((0, 1)),
            "epsilon": rng.choice((0.0, 0.1)),
            "votes": 2,
            "calls": rng.choice(("unit", "rollout")),
            "aggregate": rng.choice(("intersection", "majority", "union", "mean", "median")),
        }
        answers = verdicts("mappa", units, rng, votes=2, calls=params["calls"])
        got = get("mappa").call(units, answers, **params)
        want, known = slow_mappa(units, answers, **{k: v for k, v in params.items() if k not in ("votes", "calls")})
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        assert got.known_S.tolist() == known


def slow_mappa(units, answers, *, weigh, scale, within, ddof, epsilon, aggregate):
    x = slow_numbers(units, answers, aggregate)
    rows = []
    for n, t in enumerate(units.batch.trajectories):
        group = 0 if within == "batch" else t.group if t.group is not None else ("alone", n)
        sizes = [len((s.action or "").split()) if s.ids is None else len(s.ids) for s in t.steps]
        judged = sum(sizes) > 0 and not any(s.failed for s in t.steps)
        for tokens in sizes:
            known = judged and x[len(rows)] is not None
            rows.append(SimpleNamespace(known=known, rollout=n, group=group, x=x[len(rows)], tokens=tokens, z=0.0))
    for group in {row.group for row in rows}:
        chosen = [row for row in rows if row.known and row.group == group]
        slow_standard(chosen, weigh=weigh, scale=scale, ddof=ddof, epsilon=epsilon)
    return [row.z if row.known else 0.0 for row in rows], [row.known for row in rows]


def test_where_units_are_tokens_apart_it_is_reinforce_pp_on_the_scores():
    # reinforce_pp whitens returns to go over tokens: with one action per rollout those are the scores themselves
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 11, size=9).astype(float)
    rollouts = [team(int(n), outcome=(s - 5) / 5) for n, s in zip(rng.integers(1, 5, size=9), scores, strict=True)]
    units = by_step(Batch.from_trajectories(rollouts))
    got = get("mappa").call(units, scored(units, *scores)).advantage_S
    np.testing.assert_allclose(got, get("reinforce_pp").call(units).advantage_S, atol=1e-12)


def test_a_coach_that_knows_gives_the_true_advantage_up_to_its_scale():
    # a bandit, arms worth 0 and 1 chosen evenly: A = ±1/2; a coach that scores 2.5 and 7.5 says exactly that
    units = by_step(Batch.from_trajectories([team(1), team(1)]))
    credit = get("mappa").call(units, scored(units, 2.5, 7.5), scale="none")
    assert credit.advantage_S.tolist() == [-0.5, 0.5]


def test_unscored_rollouts_are_judged_and_broken_ones_are_not():
    broken = Trajectory([Step(ids=[1], failed=True)])
    units = by_step(Batch.from_trajectories([team(1, 1), broken, Trajectory([Step(ids=[])])]))
    seen = []
    ask = asker(lambda r: (seen.append(r.ask), Verdict((8.0,) * len(r.ask.units), scale=TEN))[1])
    credit = assign("mappa", units, ask=ask)
    assert [(a.traj, a.focus, a.template, a.votes) for a in seen] == [(0, 0, "coach", 1), (0, 1, "coach", 1)]
    assert credit.known_S.tolist() == [True, True, False, False]
    assert "units_without_verdict" not in credit.notes


def test_one_call_for_each_action_or_one_for_each_rollout():
    units = by_step(Batch.from_trajectories([team(1, 1, 1), team(2)]))
    assert cost("mappa", units, votes=2).requests == 8
    assert cost("mappa", units, calls="rollout", template="scores").requests == 2


def test_what_it_refuses():
    units = by_step(Batch.from_trajectories([team(1)]))
    for name in ("weigh", "scale", "within", "aggregate"):
        with pytest.raises(ConfigError, match=f"mappa: {name} is 'no'; give one of "):
            get("mappa").call(units, scored(units, 5.0), **{name: "no"})
