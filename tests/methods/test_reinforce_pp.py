import math
from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods.groups import whitened
from apportion.units import by_step, by_token
from tests.make import random_units, units_of
from tests.plain import peers, plain, spread
from tests.tree import average, q, tree_units


def across_an_observation(reward=1.0):
    """Two sampled tokens, two of the environment, two sampled; the reward at the end."""
    steps = [Step(prompt_ids=[], ids=[1, 2]), Step(prompt_ids=[7, 8], ids=[3, 4], reward=reward)]
    return by_token(Batch.from_trajectories([Trajectory(steps)]))


@pytest.mark.parametrize(("gamma", "want"), [(1.0, [1, 1, 1, 1]), (0.5, [0.125, 0.25, 0.5, 1])])
def test_worked_example_returns_cross_the_observation(gamma, want):
    # the published scan multiplied by the mask: [0, 0, 1, 1] and [0, 0, .5, 1]
    credit = assign("reinforce_pp", across_an_observation(), gamma=gamma, scale="none")
    returns = np.array(want)
    np.testing.assert_allclose(credit.advantage_S, returns - returns.mean())


def test_worked_example_whitened():
    # outcomes 1 0 0 over 1, 1 and 2 tokens: tokens 1 0 0 0, mean 1/4, sample variance 1/4, population 3/16
    units = by_token(units_of([0, 1, 2], [1, 1, 1], [("A", 1, 1), ("A", 0, 1), ("A", 0, 2)]).batch)
    np.testing.assert_allclose(assign("reinforce_pp", units).advantage_S, [1.5, -0.5, -0.5, -0.5])
    np.testing.assert_allclose(assign("reinforce_pp", units, ddof=0).advantage_S[0], 0.75 / (3 / 16) ** 0.5)
    np.testing.assert_allclose(assign("reinforce_pp", units, epsilon=0.75).advantage_S[0], 0.75)
    np.testing.assert_allclose(assign("reinforce_pp", units, floor=4.0).advantage_S[0], 0.375)


def test_worked_example_of_the_baseline_form():
    # group of outcomes 3 1, group of one with 5: centred 1 -1 0, sample std 1; verl keeps the lone 5
    units = units_of([0, 0, 1], [1, 1, 1], [("A", 3), ("A", 1), ("A", 5)])
    np.testing.assert_allclose(assign("reinforce_pp", units, baseline="group").advantage_S, [1, -1, 0])
    raw = assign("reinforce_pp", units, baseline="group", group_of_one="raw", scale="none")
    np.testing.assert_allclose(raw.advantage_S, np.array([1, -1, 5]) - 5 / 3)
    assert raw.notes["groups_of_one"] == 1


def test_the_divergence_from_the_reference_is_a_reward():
    step = Step(ids=[1, 2], logp=[-0.5, -1.0], ref_logp=[-1.0, -0.75], reward=1.0)
    units = by_token(Batch.from_trajectories([Trajectory([step])]))
    # rewards -.1 * .5 and 1 + .1 * .25: returns .975 and 1.025
    credit = assign("reinforce_pp", units, kl_coef=0.1, scale="none")
    np.testing.assert_allclose(credit.advantage_S, [-0.025, 0.025])


@pytest.mark.parametrize(("gamma", "want"), [(1.0, [0, 0, 1, 1]), (0.5, [0, 0, 0.5, 1])])
def test_the_scan_before_its_repair_lost_what_lies_behind_an_observation(gamma, want):
    credit = assign("reinforce_pp", across_an_observation(), gamma=gamma, scale="none", observations="reset")
    np.testing.assert_allclose(credit.advantage_S, np.array(want) - np.mean(want))


def test_estimates_of_the_divergence():
    # d = .4: k1 .4, k2 .08, k3 .070320; a step of two such tokens has twice that
    step = Step(ids=[1, 2], logp=[-0.6, -0.1], ref_logp=[-1.0, -0.5], reward=0.0)
    batch = Batch.from_trajectories(
        [Trajectory([step]), Trajectory([Step(ids=[1], logp=[-1], ref_logp=[-1], reward=0)])]
    )
    for kl, want in (("k1", 0.4), ("k2", 0.08), ("k3", 0.070320)):
        credit = assign("reinforce_pp", by_step(batch), kl_coef=-1.0, kl=kl, scale="none")
        assert credit.advantage_S[0] - credit.advantage_S[1] == pytest.approx(2 * want, abs=1e-6)


def slow_kl(step, kl):
    total = 0.0
    for a, b in zip(step.logp.tolist(), step.ref_logp.tolist(), strict=True):
        total += {"k1": a - b, "k2": (a - b) ** 2 / 2, "k3": math.exp(b - a) + a - b - 1}[kl]
    return total


def slow_returns(t, r, gamma, kl_coef, outcome, kl, observations):
    rewards = list(r.rewards) if outcome is None else [*[0.0] * (len(r.rewards) - 1), outcome]
    for s, step in enumerate(t.steps):
        if kl_coef:
            rewards[s] -= kl_coef * slow_kl(step, kl)
    out = []
    for s in range(len(rewards)):
        total = 0.0
        for k in range(s, len(rewards)):
            # something was observed between the tokens of an earlier step and those of this one
            spoken = any(len(step.ids) for step in t.steps[:k])
            seen = [i for i in range(k + 1) if len(t.steps[i].prompt_ids)]
            behind = [i for i in range(k) if len(t.steps[i].ids)]
            new = k > s and spoken and len(t.steps[k].ids) and any(i > behind[-1] for i in seen)
            if observations == "reset" and new:
                break
            total += gamma ** (k - s) * rewards[k]
        out.append(total)
    return out


KLS = [(0.0, "k1"), (0.3, "k1"), (0.3, "k2"), (0.1, "k3")]
MODES = list(
    product([1.0, 0.9], KLS, ["none", "group"], ["std", "none"], [(0, 0.0, 0.0), (1, 0.1, 0.0), (1, 0.0, 5.0)])
)


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False)
    rollouts = plain(units.batch)
    for k, (gamma, (kl_coef, kl), baseline, scale, (ddof, epsilon, floor)) in enumerate(MODES):
        group_of_one = "raw" if seed % 2 else "zero"
        observations = ("cross", "reset")[k % 2]
        flat = []
        for t, r in zip(units.batch.trajectories, rollouts, strict=True):
            outcome = None
            if baseline == "group":
                xs = peers(rollouts, r.group)
                outcome = 0.0
                if r.valid and len(xs) > 1:
                    outcome = r.outcome - sum(xs) / len(xs) if spread(xs, 0) else 0.0
                elif r.valid and group_of_one == "raw":
                    outcome = r.outcome
            flat += [
                (g, n, r.valid)
                for g, n in zip(slow_returns(t, r, gamma, kl_coef, outcome, kl, observations), r.tokens, strict=True)
            ]
        tokens = [g for g, n, valid in flat for _ in range(n if valid else 0)]
        mean = sum(tokens) / len(tokens)
        std = spread(tokens, ddof)
        divisor = (max(std**2, floor) + epsilon) ** 0.5 if scale == "std" else 1.0
        want = [(g - mean) / divisor if valid and std else 0.0 for g, _, valid in flat]
        got = assign(
            "reinforce_pp",
            units,
            gamma=gamma,
            kl_coef=kl_coef,
            baseline=baseline,
            scale=scale,
            ddof=ddof,
            epsilon=epsilon,
            floor=floor,
            group_of_one=group_of_one,
            kl=kl,
            observations=observations,
        )
        np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_it_is_reinforce_whitened(seed):
    units = random_units(seed, forks=False)
    want = assign("reinforce(gamma=0.9) | whiten", units).advantage_S
    np.testing.assert_allclose(assign("reinforce_pp", units, gamma=0.9).advantage_S, want, atol=1e-12)
    want = assign("dr_grpo | whiten", units).advantage_S
    np.testing.assert_allclose(assign("reinforce_pp", units, baseline="group").advantage_S, want, atol=1e-12)


def test_its_mean_is_the_true_value_of_the_action_up_to_one_shift_and_one_scale():
    units, moves = tree_units()
    returns = assign("reinforce", units).advantage_S
    got = average(assign("reinforce_pp", units).advantage_S * returns.std(ddof=1) + returns.mean(), moves)
    assert got == pytest.approx({(s, a): q(s, a, 1.0) for s, a in got})


def test_equal_rewards_and_a_single_token_give_zero():
    units = units_of([0] * 3, [1] * 3, [("A", 0.3)] * 3)
    assert assign("reinforce_pp", units).advantage_S.tolist() == [0, 0, 0]
    assert assign("reinforce_pp", units_of([0], [1], [("A", 2)])).advantage_S.tolist() == [0]


def test_what_it_refuses():
    units = units_of([0], [1], [("A", 1)])
    with pytest.raises(ConfigError, match="reinforce_pp: baseline is 'mean'; give one of 'none', 'group'"):
        assign("reinforce_pp", units, baseline="mean")
    with pytest.raises(ConfigError, match="reinforce_pp: scale is 'var'"):
        assign("reinforce_pp", units, scale="var")
    with pytest.raises(ConfigError, match="reinforce_pp: group_of_one is 'one'"):
        assign("reinforce_pp", units, group_of_one="one")
    for name in ("kl", "observations"):
        with pytest.raises(ConfigError, match=f"reinforce_pp: {name} is 'x'; give one of"):
            assign("reinforce_pp", units, **{name: "x"})
    with pytest.raises(DataError, match="reinforce_pp reads logp_S, which the units"):
        assign("reinforce_pp", units, kl_coef=0.1)


def test_what_has_no_weight_is_left_out_of_whitening():
    x, weight = np.array([1.0, 50.0, 4.0, -50.0, 1.0]), np.array([1, 0, 2, 0, 1])
    out, mean, std = whitened(x, weight)
    of_each = np.array([1.0, 4.0, 4.0, 1.0])
    assert (mean, std) == (pytest.approx(of_each.mean()), pytest.approx(of_each.std(ddof=1)))
    assert out == pytest.approx(np.where(weight > 0, (x - of_each.mean()) / of_each.std(ddof=1), 0.0))
    # what is left out does not make a spread, nor hide one
    assert whitened(np.array([3.0, 1e12, 3.0]), np.array([1, 0, 1]))[0].tolist() == [0, 0, 0]
    assert whitened(np.array([1e-6, 1e12, 2e-6]), np.array([1, 0, 1]))[0].any()
    assert x.tolist() == [1, 50, 4, -50, 1]
