from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_step, by_token, by_turn
from tests.make import random_batch, random_units
from tests.plain import peers, plain, spread
from tests.token_tree import BETA, REWARD, rollouts, value


def of_rewards(*rows, outcomes, beta=0.05):
    """Rollouts of one-token steps whose implicit rewards are the given ones."""
    out = []
    for row, outcome in zip(rows, outcomes, strict=True):
        steps = [Step(prompt_ids=[0], ids=[1], logp=[-9.0], columns={"prm_logp": [r / beta - 9.0]}) for r in row]
        out.append(Trajectory(steps, outcome=outcome, group="g"))
    return by_step(Batch.from_trajectories(out))


def test_worked_example():
    # steps .3 .1 | -.2 .4: mean of all .15, of the first .05; episodes +.5 and -.5
    units = of_rewards([0.3, 0.1], [-0.2, 0.4], outcomes=(1, 0))
    paper = assign("istar", units)
    np.testing.assert_allclose(paper.advantage_S, [0.65, 0.45, -0.85, -0.25], atol=1e-9)
    np.testing.assert_allclose(paper.parts["episode"], [0.5, 0.5, -0.5, -0.5])
    code = assign("istar", units, baseline="first")
    np.testing.assert_allclose(code.advantage_S, [0.75, 0.55, -0.75, -0.15], atol=1e-9)


def test_token_granularity_loses_the_last_token():
    # one rollout of steps .3 .1 | .2 and one of -.2: tokens .3 .1 .2 -.2, mean .1; or .3 0 0 0, mean .075
    def rollout(*steps, outcome):
        made = [
            Step(
                prompt_ids=[0], ids=[1] * len(r), logp=[-9.0] * len(r), columns={"prm_logp": [x / 0.05 - 9 for x in r]}
            )
            for r in steps
        ]
        return Trajectory(made, outcome=outcome, group="g")

    batch = Batch.from_trajectories([rollout([0.3, 0.1], [0.2], outcome=1), rollout([-0.2], outcome=0)])
    tokens = by_token(batch)
    np.testing.assert_allclose(assign("istar", tokens).parts["step"], [0.2, 0.0, 0.1, -0.3], atol=1e-12)
    code = assign("istar", tokens, last_token="zero")
    np.testing.assert_allclose(code.parts["step"], [0.225, -0.075, -0.075, -0.075], atol=1e-12)
    first = assign("istar", tokens, baseline="first")  # tokens of each first step: .3 .1 -.2
    np.testing.assert_allclose(first.parts["step"], np.array([0.3, 0.1, 0.2, -0.2]) - 0.2 / 3, atol=1e-12)
    with pytest.raises(
        ConfigError, match="istar: last_token='zero' is of tokens, the units are steps; cut with by_tok"
    ):
        assign("istar", by_step(batch), last_token="zero")


@pytest.mark.parametrize("seed", range(50))
def test_over_tokens_it_equals_the_slow_reference(seed):
    units = by_token(random_batch(seed, forks=False, columns=["prm_logp"]))
    told = plain(units.batch)
    for baseline, last_token in product(["all", "first"], ["keep", "zero"]):
        rows = []  # per rollout, per step, per token
        for t in units.batch.trajectories:
            rows.append([[0.3 * (a - b) for a, b in zip(s.columns["prm_logp"], s.logp, strict=True)] for s in t.steps])
            if last_token == "zero":
                rows[-1] = [[*own[:-1], 0.0] if own else [] for own in rows[-1]]
        want = []
        for n, steps in enumerate(rows):
            voters = []
            for m, other in enumerate(rows):
                if told[m].valid and told[m].group == told[n].group:
                    spoken = [own for own in other if own]
                    voters += [x for own in (spoken if baseline == "all" else spoken[:1]) for x in own]
            for x in (x for own in steps for x in own):
                alone = not told[n].valid or len(voters) < 2
                want.append(0.0 if alone else x - sum(voters) / len(voters))
        got = assign("istar", units, beta=0.3, baseline=baseline, last_token=last_token).parts["step"]
        np.testing.assert_allclose(got, want, atol=1e-9)


def slow(units, beta, scale, ddof, epsilon, baseline, normalise):
    told = plain(units.batch)
    rewards = []
    for trajectory in units.batch:
        rewards.append([beta * (sum(s.columns["prm_logp"]) - sum(s.logp)) for s in trajectory.steps])
    if normalise == "batch":
        sums = [abs(sum(own[t:])) for own, r in zip(rewards, told, strict=True) if r.valid for t in range(len(own))]
        rewards = [[x / (max(sums) + 1e-6) for x in own] for own in rewards]
    for n, own in enumerate(rewards):
        voters = []
        for m, other in enumerate(rewards):
            if told[m].valid and told[m].group == told[n].group:
                rows = [x for x, size in zip(other, told[m].tokens, strict=True) if size]
                voters += rows if baseline == "all" else rows[:1]
        for x, size in zip(own, told[n].tokens, strict=True):
            if not told[n].valid or not size or len(voters) < 2:
                yield 0.0
                continue
            d = x - sum(voters) / len(voters)
            if scale == "rloo":
                d *= len(voters) / (len(voters) - 1)
            elif scale == "std":
                d = d / (spread(voters, ddof) + epsilon) if spread(voters, ddof) else 0.0
            yield d


def slow_episode(told, scale, ddof, epsilon):
    for r in told:
        xs = peers(told, r.group)
        d = r.outcome - sum(xs) / len(xs) if r.valid and len(xs) > 1 else 0.0
        if scale == "rloo":
            d *= len(xs) / max(len(xs) - 1, 1)
        elif scale == "std" and d:
            d = d / (spread(xs, ddof) + epsilon) if spread(xs, ddof) else 0.0
        yield from [d] * len(r.tokens)


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = by_step(random_batch(seed, forks=False, columns=["prm_logp"]))
    modes = product(["none", "std", "rloo"], [0, 1], ["all", "first"], ["none", "batch"])
    for scale, ddof, baseline, normalise in modes:
        options = {"scale": scale, "ddof": ddof, "epsilon": 1e-3, "baseline": baseline, "normalise": normalise}
        credit = assign("istar", units, beta=0.3, step_weight=0.7, **options)
        step = 0.7 * np.array(list(slow(units, 0.3, **options)))
        episode = list(slow_episode(plain(units.batch), scale, ddof, 1e-3))
        np.testing.assert_allclose(credit.parts["step"], step, atol=1e-8)
        np.testing.assert_allclose(credit.parts["episode"], episode, atol=1e-8)
        np.testing.assert_allclose(credit.advantage_S, step + episode, atol=1e-8)


@pytest.mark.parametrize(("scale", "neighbour"), [("none", "dr_grpo"), ("std", "grpo"), ("rloo", "rloo")])
def test_without_the_step_part_it_is_its_neighbour(scale, neighbour):
    units = by_step(random_batch(3, forks=False, columns=["prm_logp"]))
    got = assign("istar", units, step_weight=0.0, scale=scale)
    np.testing.assert_allclose(got.advantage_S, assign(neighbour, units).advantage_S, atol=1e-12)


def test_of_rollouts_of_one_step_both_baselines_are_one():
    units = of_rewards([0.3], [-0.2], [0.1], outcomes=(1, 0, 0))
    for scale in ("none", "std", "rloo"):
        a = assign("istar", units, scale=scale).advantage_S
        np.testing.assert_allclose(a, assign("istar", units, scale=scale, baseline="first").advantage_S)


def test_at_the_optimum_the_step_part_compares_true_gains():
    # one step per rollout; its reward is outcome - V*(start), so the unknown start cancels
    units = by_step(rollouts("other", "ref_logp", logp="reference", prm_logp="optimal"))
    got = assign("istar", units, beta=BETA).parts["step"]
    gains = [r - value("") for r in REWARD.values()]
    np.testing.assert_allclose(got, [g - sum(gains) / 4 for g in gains], atol=1e-12)


def test_what_it_refuses():
    with pytest.raises(DataError, match="istar reads column:prm_logp"):
        assign("istar", random_units(1, forks=False))
    batch = random_batch(1, forks=False, columns=["prm_logp"])
    assert len(assign("istar", by_turn(batch)).units)
    for name, choices in (
        ("baseline", "'all' or 'first'"),
        ("scale", "'none' or 'std' or 'rloo'"),
        ("normalise", ""),
        ("last_token", ""),
    ):
        with pytest.raises(ConfigError, match=f"istar: {name} is 'x'; give {choices}"):
            assign("istar", by_step(batch), **{name: "x"})
