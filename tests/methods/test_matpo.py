import dataclasses
from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_agent, by_step
from tests.make import random_batch
from tests.plain import plain, spread


def team(*rollouts):
    """One group; (accuracy, planner's format, format of each worker)."""
    made = []
    for accuracy, own, *workers in rollouts:
        steps = [Step(ids=[1], agent="planner", rewards={"format": own})]
        steps += [Step(ids=[2], agent=f"worker-{k}", rewards={"format": f}) for k, f in enumerate(workers)]
        made.append(Trajectory(steps, outcome=accuracy, group="g"))
    return Batch.from_trajectories(made)


PAPER = [(1, 1, 1.0), (1, 1, 0.5), (0, 1, 0.0), (0, 0, 1.0)]


def test_worked_example():
    # rewards 1.1, 1.075, .05, .05
    credit = assign("matpo", by_agent(team(*PAPER)), epsilon=1e-6)
    np.testing.assert_allclose(credit.advantage_S[::2], [0.886763, 0.845033, -0.865898, -0.865898], atol=5e-7)
    assert credit.advantage_S[::2].tolist() == credit.advantage_S[1::2].tolist()


def test_several_workers_are_averaged_and_none_are_no_zero():
    # formats (1 + mean(0, 1)) / 2 = .75, 1 alone, and (0 + .5) / 2: unscaled, weight 1
    units = by_agent(team((0, 1, 0.0, 1.0), (0, 1), (0, 0, 0.5)))
    got = assign("matpo", units, scale="none", format_weight=1.0).advantage_S
    np.testing.assert_allclose(got[[0, 3, 4]], np.array([0.75, 1.0, 0.25]) - 2 / 3)


def test_an_agents_scores_add_up_and_a_worker_without_score_is_left_out():
    steps = [
        Step(ids=[1], agent="planner", rewards={"format": 0.25}),
        Step(ids=[1], agent="a"),
        Step(ids=[1], agent="b", rewards={"format": 0.5}),
        Step(ids=[1], agent="planner", rewards={"format": 0.75}),
    ]
    batch = Batch.from_trajectories([Trajectory(steps, outcome=0.0, group="g"), *team((0, 0)).trajectories])
    for cut in (by_step, by_agent):  # (1 + .5) / 2 against 0
        got = assign("matpo", cut(batch), scale="none", format_weight=1.0).advantage_S
        np.testing.assert_allclose(got, [0.375] * (len(got) - 1) + [-0.375])


def slow_matpo(batch, planner, accuracy, format, format_weight, scale, ddof, epsilon, group_of_one):
    rewards = []
    rollouts = plain(batch)
    for r, t in zip(rollouts, batch.trajectories, strict=True):
        scores = {}
        for step in t.steps:
            if format in step.rewards:
                scores.setdefault(step.agent or "", []).append(step.rewards[format])
        own = [sum(scores[planner])] if planner in scores else []
        workers = [sum(xs) for agent, xs in scores.items() if agent != planner]
        halves = own + ([sum(workers) / len(workers)] if workers else [])
        acc = r.outcome if accuracy is None else t.outcomes.get(accuracy)
        known = r.valid and acc is not None
        rewards.append(acc + format_weight * (sum(halves) / len(halves) if halves else 0) if known else None)
    for r, x in zip(rollouts, rewards, strict=True):
        xs = [y for o, y in zip(rollouts, rewards, strict=True) if o.group == r.group and y is not None]
        a = 0.0
        if x is not None and len(xs) == 1 and group_of_one == "raw":
            a = x / (1 + epsilon if scale == "std" else 1)
        elif x is not None and len(xs) > 1 and spread(xs, 0):
            a = (x - sum(xs) / len(xs)) / (spread(xs, ddof) + epsilon if scale == "std" else 1)
        yield from [a] * len(r.rewards)


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    batch = random_batch(seed, parts=True)
    rng = np.random.default_rng(seed)
    told = [
        dataclasses.replace(t, steps=[dataclasses.replace(s, agent=str(rng.choice(["p", "b", "c"]))) for s in t.steps])
        for t in batch.trajectories
    ]
    batch = Batch.from_trajectories(told)
    units = by_step(batch)
    group_of_one = ("zero", "raw")[seed % 2]
    for accuracy, (format, weight), (scale, ddof, epsilon) in product(
        [None, "länge"],
        [("format", 0.1), ("work", 2.0)],
        [("none", 1, 0.0), ("std", 0, 0.0), ("std", 1, 0.1)],
    ):
        how = {"planner": "p", "accuracy": accuracy, "format": format, "format_weight": weight, "scale": scale}
        how |= {"ddof": ddof, "epsilon": epsilon, "group_of_one": group_of_one}
        np.testing.assert_allclose(assign("matpo", units, **how).advantage_S, list(slow_matpo(batch, **how)), atol=1e-9)


def test_its_mean_is_the_true_advantage_of_the_planners_choice():
    # the planner calls a worker with probability 1/4 or answers itself; the batch is the distribution. Reward: accuracy
    # + 1/2 of the mean format. Called: accuracy 1 or 0 evenly, formats 1 and (1 or 0); alone: accuracy 1/2, format 0
    paths = [("call", 1.0, 1.0, 1.0), ("call", 0.0, 1.0, 0.0)] + [("alone", 0.5, 0.0)] * 6
    units = by_agent(team(*(path[1:] for path in paths)))
    got = assign("matpo", units, scale="none", format_weight=0.5).advantage_S
    q = {"call": ((1 + 0.5 * 1) + (0 + 0.5 * 0.5)) / 2, "alone": 0.5}
    v = q["call"] / 4 + 3 * q["alone"] / 4
    chosen = [path[0] for path in paths]
    for choice in ("call", "alone"):
        planners = [got[s] for s in range(len(units)) if units.agent_S[s] == "planner"]
        mean = np.mean([a for a, c in zip(planners, chosen, strict=True) if c == choice])
        assert mean == pytest.approx(q[choice] - v)
    # a worker's credit is the planner's by decree, so nothing true can be said about its own choices
    workers = [got[s] for s in range(len(units)) if units.agent_S[s] != "planner"]
    np.testing.assert_allclose(workers, [1.5 - v, 0.25 - v])


def test_rollouts_without_a_planner_are_counted():
    units = by_agent(team(*PAPER))
    assert "trajectories_without_planner" not in assign("matpo", units).notes
    assert assign("matpo", units, planner="boss").notes["trajectories_without_planner"] == 4
    mixed = [*team((1, 1)).trajectories, Trajectory([Step(ids=[1], agent="w")], outcome=0.0, group="g")]
    mixed.append(Trajectory([Step(ids=[1], agent="w")], group="g"))  # nobody scored it: not one of them
    assert assign("matpo", by_agent(Batch.from_trajectories(mixed))).notes["trajectories_without_planner"] == 1


@pytest.mark.parametrize("seed", range(10))
def test_without_format_it_is_grpo(seed):
    units = by_step(random_batch(seed, parts=True))
    units = dataclasses.replace(units, agent_S=np.array(["planner", "x"], dtype=object)[np.arange(len(units)) % 2])
    got = assign("matpo", units, format_weight=0.0).advantage_S
    np.testing.assert_allclose(got, assign("grpo", units).advantage_S, atol=1e-12)


def test_what_it_refuses():
    units = by_agent(team(*PAPER))
    for name in ("scale", "group_of_one"):
        with pytest.raises(ConfigError, match=f"matpo: {name} is 'x'; give one of"):
            assign("matpo", units, **{name: "x"})
    with pytest.raises(DataError, match=r"matpo reads reward_parts:style, .* lack; give Step.rewards\['style'\]"):
        assign("matpo", units, format="style")
    with pytest.raises(DataError, match=r"matpo reads outcome_parts:exact, .* lack; give Trajectory.outcomes"):
        assign("matpo", units, accuracy="exact")
