import dataclasses
from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_agent, by_step, by_turn
from tests.make import random_batch, units_of
from tests.plain import plain, spread


def team(*rollouts, group=None):
    """One step for each (agent, reward)."""
    made = []
    for i, rows in enumerate(rollouts):
        steps = [Step(ids=[1], agent=agent, reward=float(reward)) for agent, reward in rows]
        made.append(Trajectory(steps, group=str(group[i] if group else 0)))
    return Batch.from_trajectories(made)


# agent 1 earns 1 1 0 1, agent 2 .2 0 .1 .1
PAPER = team(*([("one", a), ("two", b)] for a, b in zip([1, 1, 0, 1], [0.2, 0, 0.1, 0.1], strict=True)))


def test_worked_example():
    credit = assign("dr_mas", by_agent(PAPER), reward="own", epsilon=1e-6)
    one, two = credit.advantage_S[::2], credit.advantage_S[1::2]
    np.testing.assert_allclose(one, [0.499999, 0.499999, -1.499997, 0.499999], atol=5e-7)
    np.testing.assert_allclose(two, [1.22473, -1.22473, 0, 0], atol=5e-6)
    pooled = assign("dr_mas", by_agent(PAPER), reward="own", pool="group", epsilon=1e-6)
    np.testing.assert_allclose(pooled.advantage_S[::2], [1.197098, 1.197098, -0.884812, 1.197098], atol=5e-7)
    np.testing.assert_allclose(pooled.advantage_S[1::2], [-0.46843, -0.884812, -0.676621, -0.676621], atol=5e-7)


def test_pooled_statistics_inflate_an_agents_gradient_by_the_known_factor():
    # mean square of the pooled z-scores, population statistics: 1.452 for agent 1, .548 for agent 2
    pooled = assign("dr_mas", by_agent(PAPER), reward="own", pool="group", ddof=0).advantage_S
    apart = assign("dr_mas", by_agent(PAPER), reward="own", ddof=0).advantage_S
    np.testing.assert_allclose([np.mean(pooled[a::2] ** 2) for a in (0, 1)], [1.452, 0.548], atol=5e-4)
    np.testing.assert_allclose([np.mean(apart[a::2] ** 2) for a in (0, 1)], [1.0, 1.0])


def test_an_agent_that_did_not_act_is_no_member():
    batch = team([("a", 0), ("b", 4)], [("a", 2)], [("a", 4)])
    credit = assign("dr_mas", by_agent(batch), scale="none")
    np.testing.assert_allclose(credit.advantage_S, [4 - 10 / 3, 0, 2 - 10 / 3, 4 - 10 / 3])
    assert credit.notes["agents_without_company"] == 1
    other = team([("a", 0), ("b", 0)], [("a", 1), ("b", 2)], [("c", 1)])
    assert assign("dr_mas", by_agent(other)).notes["agents_without_company"] == 1
    raw = assign("dr_mas", by_agent(batch), scale="none", group_of_one="raw", reward="own")
    assert raw.advantage_S[1] == 4


def test_rows_or_rollouts_vote():
    # agent a acts three times in the first rollout and once in the second; outcomes 4 and 0
    batch = team([("a", 0), ("a", 0), ("a", 4)], [("a", 0)])
    assert assign("dr_mas", by_step(batch), scale="none").advantage_S.tolist() == [2, 2, 2, -2]
    assert assign("dr_mas", by_step(batch), scale="none", votes="row").advantage_S.tolist() == [1, 1, 1, -3]
    own = assign("dr_mas", by_step(batch), scale="none", votes="row", reward="own")
    assert own.advantage_S.tolist() == [-1, -1, 3, -1]


def slow_dr_mas(batch, reward, pool, votes, scale, ddof, epsilon, group_of_one):
    """Over steps."""
    rows = []  # group, agent, value, valid, steps that get its credit
    at = 0
    for r, t in zip(plain(batch), batch.trajectories, strict=True):
        agents = [step.agent or "" for step in t.steps]
        seats = [[s] for s in range(len(agents))]
        if votes == "trajectory":
            seats = [[s for s, b in enumerate(agents) if b == a] for a in dict.fromkeys(agents)]
        for seat in seats:
            x = r.outcome if reward == "outcome" else sum(r.rewards[s] for s in seat)
            rows.append((r.group, agents[seat[0]] if pool == "agent" else "", x, r.valid, [at + s for s in seat]))
        at += len(agents)
    out = [0.0] * at
    for group, agent, x, valid, seat in rows:
        xs = [row[2] for row in rows if row[:2] == (group, agent) and row[3]]
        a = 0.0
        if valid and len(xs) == 1 and group_of_one == "raw":
            a = x / (1 + epsilon if scale == "std" else 1)
        elif valid and len(xs) > 1 and spread(xs, 0):
            a = (x - sum(xs) / len(xs)) / (spread(xs, ddof) + epsilon if scale == "std" else 1)
        for s in seat:
            out[s] = a
    return out


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    batch = random_batch(seed)
    rng = np.random.default_rng(seed)
    told = [
        dataclasses.replace(t, steps=[dataclasses.replace(s, agent=str(rng.choice(["a", "b", "c"]))) for s in t.steps])
        for t in batch.trajectories
    ]
    batch = Batch.from_trajectories(told)
    units = by_step(batch)
    group_of_one = ("zero", "raw")[seed % 2]
    for reward, pool, votes, (scale, ddof, epsilon) in product(
        ["outcome", "own"],
        ["agent", "group"],
        ["trajectory", "row"],
        [("none", 1, 0.0), ("std", 0, 0.0), ("std", 1, 0.1)],
    ):
        how = {"reward": reward, "pool": pool, "votes": votes, "scale": scale, "ddof": ddof, "epsilon": epsilon}
        want = slow_dr_mas(batch, group_of_one=group_of_one, **how)
        got = assign("dr_mas", units, group_of_one=group_of_one, **how).advantage_S
        np.testing.assert_allclose(got, want, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_with_one_agent_it_is_grpo_and_finer_units_get_the_same(seed):
    batch = random_batch(seed)
    alone = [
        dataclasses.replace(t, steps=[dataclasses.replace(s, agent="me") for s in t.steps]) for t in batch.trajectories
    ]
    units = by_agent(Batch.from_trajectories(alone))
    want = assign("grpo", units).advantage_S
    np.testing.assert_allclose(assign("dr_mas", units).advantage_S, want, atol=1e-12)
    by_row = assign("grpo", by_step(units.batch)).to_tokens().advantage_T
    np.testing.assert_allclose(assign("dr_mas", by_step(units.batch)).to_tokens().advantage_T, by_row, atol=1e-12)


def test_its_mean_is_the_true_advantage_of_each_agents_choice():
    # planner chooses l or r evenly; the coder acts only after l, with x (3/4) or y; the batch is the distribution
    paths = [("l", "x", 2.0)] * 3 + [("l", "y", 0.0)] + [("r", None, 1.0)] * 4
    made = []
    for first, second, outcome in paths:
        steps = [Step(ids=[1], agent="planner", action=first)]
        steps += [Step(ids=[2], agent="coder", action=second)] if second else []
        made.append(Trajectory(steps, outcome=outcome, group="g"))
    units = by_agent(Batch.from_trajectories(made))
    got = assign("dr_mas", units, scale="none").advantage_S
    choices = [step.action for t in made for step in t.steps]
    mean = {c: np.mean([a for a, d in zip(got, choices, strict=True) if c == d]) for c in "lrxy"}
    # Q(l) = 3/4 * 2 = 3/2, Q(r) = 1, V = 5/4; after l the coder's V is 3/2
    assert mean == pytest.approx({"l": 0.25, "r": -0.25, "x": 0.5, "y": -1.5})


def test_what_it_refuses():
    units = by_agent(PAPER)
    for name in ("reward", "pool", "votes", "scale", "group_of_one"):
        with pytest.raises(ConfigError, match=f"dr_mas: {name} is 'x'; give one of"):
            assign("dr_mas", units, **{name: "x"})
    with pytest.raises(DataError, match=r"dr_mas reads agent_S, which the units .* lack; agents: give Step.agent"):
        assign("dr_mas", by_turn(units_of([0], [1], [("A", 1)]).batch))
