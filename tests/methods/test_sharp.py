"""No enumerable truth: leave-one-out is no share of the outcome. Three games beside `shapley` show what it misses."""

import itertools

import numpy as np
import pytest

from apportion.asks import Score
from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.resources import Refusal
from apportion.units import by_agent, by_step
from tests.asking import asker
from tests.make import random_batch
from tests.methods.test_shapley import GAMES, THREE, plays, rollout
from tests.plain import plain, spread
from tests.pricing import assert_the_price_is_counted, number_of

LOO = {
    "needs 1 and 2": [1, 1, 0],
    "1 or 2 suffices": [0, 0, 0],
    "1 works; 3 breaks it unless 2 is there": [1, 1, 0],
}


@pytest.mark.parametrize("name", GAMES)
def test_worked_games(name):
    # beside a member whose masked scores never fall, half of D is the distance from the group's mean
    game = GAMES[name][0]
    rollouts = [rollout(*THREE, group="g", outcome=1.0, id="plays"), rollout(*THREE, group="g", outcome=1.0, id="idle")]
    rollouts[1] = Trajectory(
        [Step(prompt_ids=[1], ids=[50 + s], agent=a) for s, a in enumerate(THREE)], group="g", outcome=1.0, id="idle"
    )
    units = by_agent(Batch.from_trajectories(rollouts))

    def score(request):
        return 0.0 if request.trajectory.id == "idle" else game(set(THREE) - set(request.ask.agents))

    credit = assign("sharp", units, scale="none", ask=asker(score))
    assert (2 * credit.advantage_S[:3]).tolist() == LOO[name]
    assert credit.cost.requests == 2 * 4


def test_worked_group():
    # R = outcome + D = 2, 0, 1, -1
    falls = [1.0, 0.0, 0.0, -1.0]
    batch = Batch.from_trajectories(
        [
            Trajectory([Step(prompt_ids=[1], ids=[n], agent="w")], group="g", outcome=float(n % 2 == 0), id=str(n))
            for n in range(4)
        ]
    )
    ask = asker(lambda r: 5.0 - falls[int(r.trajectory.id)] * bool(r.ask.agents))
    credit = assign("sharp", by_agent(batch), ask=ask)
    assert credit.advantage_S == pytest.approx([1.16189, -0.38730, 0.38730, -1.16189], abs=1e-5)
    ddof0 = assign("sharp", by_agent(batch), ddof=0, ask=ask)
    assert ddof0.advantage_S == pytest.approx([1.34164, -0.44721, 0.44721, -1.34164], abs=1e-5)


@pytest.mark.parametrize("cut", [by_agent, by_step])
@pytest.mark.parametrize("seed", range(12))
def test_equals_the_slow_reference(seed, cut):
    batch = random_batch(seed, parts=True)
    if not any(step.agent for t in batch.trajectories for step in t.steps) or not batch.scored_N.any():
        pytest.skip("nobody has a name")
    units = cut(batch)

    def score(request):
        if request.ask.agents and number_of("lost", request.trajectory.id, request.ask.agents) > 1.2:
            raise Refusal("no")
        return number_of(request.trajectory.id, request.ask.agents)

    settings = itertools.product(
        ("coder", "planner"), (0.0, 0.7), (None, "work"), ("score", "outcome"), ("std", "none"), ("zero", "raw")
    )
    for planner, loo_weight, tool, whole, scale, group_of_one in settings:
        params = {
            "planner": planner,
            "loo_weight": loo_weight,
            "tool": tool,
            "tool_weight": 0.4,
            "whole": whole,
            "scale": scale,
            "ddof": 0 if tool else 1,
            "epsilon": 0.1 if tool else 0.0,
            "group_of_one": group_of_one,
        }
        got = assign("sharp", units, ask=asker(score), **params)
        want, known = slow_sharp(batch, units, **params)
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
        assert got.known_S.tolist() == known


def slow_sharp(batch, units, planner, loo_weight, tool, tool_weight, whole, scale, ddof, epsilon, group_of_one):
    rollouts = plain(batch)
    reward = {}
    for s, (n, name) in enumerate(zip(units.traj_of_S.tolist(), units.agent_S.tolist(), strict=True)):
        r, identity = rollouts[n], batch.trajectories[n].id
        if not r.valid or not name:
            continue
        if (n, name) not in reward:
            fall = 0.0
            if name != planner:
                lost = number_of("lost", identity, (name,)) > 1.2
                full = r.outcome if whole == "outcome" else number_of(identity, ())
                fall = float("nan") if lost else full - number_of(identity, (name,))
            reward[n, name] = r.outcome + loo_weight * fall
        if tool and not np.isnan(part := units.reward_parts[tool][s]):
            reward[n, name] += tool_weight * part
    reward = {key: x for key, x in reward.items() if not np.isnan(x)}
    out = {}
    for (n, name), x in reward.items():
        same = [y for (m, other), y in reward.items() if other == name and rollouts[m].group == rollouts[n].group]
        if len(same) == 1:
            out[n, name] = 0.0 if group_of_one == "zero" else x / (1 + epsilon) if scale == "std" else x
        else:
            std = spread(same, ddof)
            off = x - sum(same) / len(same)
            flat = spread(same, 1) == 0
            out[n, name] = 0.0 if flat else off / (std + epsilon) if scale == "std" else off
    keys = list(zip(units.traj_of_S.tolist(), units.agent_S.tolist(), strict=True))
    return [out.get(key, 0.0) for key in keys], [key in out for key in keys]


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_without_the_masked_scores_it_is_dr_mas(seed):
    units = by_agent(random_batch(seed))
    named = units.agent_S != ""
    one = assign("sharp", units, loo_weight=0.0, ask=asker(lambda r: number_of(r.trajectory.id))).advantage_S
    assert one[named] == pytest.approx(assign("dr_mas", units).advantage_S[named])


def test_the_planner_gets_the_outcome_and_its_tools_only():
    steps = [[("planner", 0.5), ("w", None)], [("planner", 0.0), ("w", 0.25)]]
    batch = Batch.from_trajectories(
        [
            Trajectory(
                [
                    Step(prompt_ids=[1], ids=[10 * n + k], agent=a, rewards={} if x is None else {"tool": x})
                    for k, (a, x) in enumerate(own)
                ],
                group="g",
                outcome=1.0,
            )
            for n, own in enumerate(steps)
        ]
    )
    seen = []
    ask = asker(lambda r: (seen.append(r.ask), 1.0)[1])
    credit = assign("sharp", by_agent(batch), tool="tool", tool_weight=2.0, scale="none", ask=ask)
    assert credit.advantage_S == pytest.approx([0.5, -0.25, -0.5, 0.25])
    assert {a.agents for a in seen} == {(), ("w",)}


def test_an_agent_that_is_absent_or_unknown_is_nobodys_company():
    # "b" acts in one rollout only, and "c" is lost in one of two
    batch = Batch.from_trajectories(
        [
            Trajectory(
                [Step(prompt_ids=[1], ids=[10 * n + k], agent=a) for k, a in enumerate(names)],
                group="g",
                outcome=n,
                id=str(n),
            )
            for n, names in enumerate(("abc", "ac"))
        ]
    )

    def score(request):
        if request.ask.agents == ("c",) and request.trajectory.id == "1":
            raise Refusal("no")
        return 0.0

    credit = assign("sharp", by_agent(batch), scale="none", ask=asker(score))
    assert credit.advantage_S.tolist() == [-0.5, 0, 0, 0.5, 0]
    assert credit.known_S.tolist() == [True, True, True, True, False]
    assert credit.notes["agents_without_company"] == 2
    assert credit.notes["agents_without_score"] == 1


def test_what_is_asked():
    batch = Batch.from_trajectories([rollout("planner", "b", "a", outcome=1.0), rollout("planner", outcome=1.0)])
    spec = get("sharp")
    asks = spec.plan(by_step(batch), **spec.bind({}))
    assert asks == [Score(0), Score(0, agents=("b",)), Score(0, agents=("a",))]
    assert spec.plan(by_step(batch), **spec.bind({"whole": "outcome"})) == asks[1:]


def test_the_price_is_what_is_counted():
    units = by_agent(random_batch(5))
    full = assert_the_price_is_counted("sharp", units)
    assert assert_the_price_is_counted("sharp", units, whole="outcome") < full


def test_what_it_refuses():
    batch = Batch.from_trajectories([rollout("a", outcome=1.0)])
    for key, value, words in (
        ("whole", "me", "'score', 'outcome'"),
        ("scale", "batch", "'std', 'none'"),
        ("group_of_one", "me", "'zero', 'raw'"),
    ):
        with pytest.raises(ConfigError, match=f"sharp: {key} is '{value}'; give one of {words}"):
            assign("sharp", by_agent(batch), ask=plays(lambda s: 0.0), **{key: value})
    with pytest.raises(DataError, match=r"sharp reads reward_parts:tool"):
        assign("sharp", by_agent(batch), tool="tool", ask=plays(lambda s: 0.0))
