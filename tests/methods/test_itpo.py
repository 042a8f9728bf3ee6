from itertools import product
from math import exp

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_step, by_turn
from tests.make import random_batch, random_units
from tests.plain import plain
from tests.token_tree import BETA, REWARD, rollouts, value


def of_rewards(*turns, outcome=1.0, beta=0.01):
    """Beside a rollout that is all zero, one with these token rewards per turn."""
    steps = [
        Step(
            prompt_ids=[0],
            ids=range(len(r)),
            ref_logp=[-9.0] * len(r),
            columns={"prm_logp": [x / beta - 9.0 for x in r]},
        )
        for r in turns
    ]
    nothing = Step(prompt_ids=[0], ids=[1, 2], ref_logp=[-9.0] * 2, columns={"prm_logp": [-9.0] * 2})
    rollouts_ = [Trajectory(steps, outcome=outcome, group="g"), Trajectory([nothing], outcome=0.0, group="g")]
    return by_turn(Batch.from_trajectories(rollouts_))


def shares(units, **options):
    """Turn rewards of the first rollout: against an all-zero one the exact baseline takes nothing away."""
    got = assign("itpo", units, form="norm", process_weight=1.0, **options).advantage_S[:-1]
    return got - np.append(got[1:], 0.0)  # from sums to the end back to turns


TURNS = ([0.02, 0.01, 0.03], [-0.01, 0.02], [0.04])


def test_worked_example():
    # sums .06 .01 .04, means .02 .005 .04, mean length 2
    units = of_rewards(*TURNS)
    np.testing.assert_allclose(shares(units, shares="mean"), [0.329716, 0.305892, 0.364392], atol=1e-6)
    np.testing.assert_allclose(shares(units, temperature=0.7), [0.344484, 0.320736, 0.334781], atol=1e-6)
    np.testing.assert_allclose(shares(units, shares="length"), [1 / 2, 1 / 3, 1 / 6], atol=1e-9)
    large = of_rewards([0.5], [0.2], [0.8])
    np.testing.assert_allclose(shares(large), [0.278601, 0.131602, 0.589798], atol=1e-6)
    np.testing.assert_allclose(shares(of_rewards([0.3], [-0.1], [0.5])), [0.331499, 0.121952, 0.546549], atol=1e-6)
    assert shares(of_rewards([0.5], outcome=2.0)).tolist() == [2.0]  # one turn gets the whole outcome


def test_worked_example_of_the_repository():
    # sums .3 -.1 .5 over 10, 40 and 20 tokens
    units = of_rewards([0.03] * 10, [-0.0025] * 40, [0.025] * 20)
    got = shares(units, shares="mean")
    mean_length = (10 + 40 + 20 + 2) / 4  # ours counts the other rollout of the batch too
    logits = [exp(m * mean_length / 0.4) for m in (0.03, -0.0025, 0.025)]
    np.testing.assert_allclose(got, np.array(logits) / sum(logits), atol=1e-9)
    logits = [exp(m * (70 / 3) / 0.4) for m in (0.03, -0.0025, 0.025)]
    np.testing.assert_allclose(np.array(logits) / sum(logits), [0.527090, 0.079165, 0.393745], atol=1e-6)


def slow(units, form, beta, by, temperature, baseline):
    told = plain(units.batch)
    score = []
    for trajectory in units.batch:
        score.append([beta * (sum(s.columns["prm_logp"]) - sum(s.ref_logp)) for s in trajectory.steps])
    sizes = [k for r in told if r.valid for k in r.tokens if k]
    mean_length = sum(sizes) / len(sizes)
    rewards = []
    for own, r in zip(score, told, strict=True):
        if form == "sum":
            rewards.append(own)
            continue
        weight = []
        for x, k in zip(own, r.tokens, strict=True):
            if by == "length":
                weight.append(k)
            else:
                weight.append(exp((x if by == "sum" else x / k * mean_length) / temperature) if k else 0.0)
        rewards.append([w / (sum(weight) or 1.0) * (r.outcome or 0.0) for w in weight])
    for n, own in enumerate(rewards):
        members = [m for m in range(len(told)) if told[m].valid and told[m].group == told[n].group]
        others = [m for m in members if m != n]
        if not told[n].valid or not others:
            yield from [(0.0, 0.0)] * len(own)
            continue
        mean = {}
        for m in members:
            rows = [x for x, k in zip(rewards[m], told[m].tokens, strict=True) if k]
            mean[m] = sum(rows) / len(rows)
        s = []
        for x, k in zip(own, told[n].tokens, strict=True):
            exact = x - sum(mean[m] for m in others) / len(others)
            code = x * len(members) / len(others) - sum(mean.values()) / len(others)
            s.append((exact if baseline == "exact" else code) if k else 0.0)
        last = told[n].outcome - sum(told[m].outcome for m in others) / len(others)
        yield from ((sum(s[k:]), last) for k in range(len(own)))


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = by_step(random_batch(seed, forks=False, columns=["prm_logp"]))
    for form, by, baseline in product(["sum", "norm"], ["sum", "mean", "length"], ["exact", "code"]):
        options = {"form": form, "beta": 0.3, "temperature": 0.6, "baseline": baseline}
        credit = assign("itpo", units, shares=by, process_weight=2.0, outcome_weight=3.0, **options)
        want = np.array(list(slow(units, by=by, **options)))
        np.testing.assert_allclose(credit.parts["process"], 2 * want[:, 0], atol=1e-8)
        np.testing.assert_allclose(credit.parts["outcome"], 3 * want[:, 1], atol=1e-8)


def test_defaults_are_those_of_each_form():
    units = by_step(random_batch(3, forks=False, columns=["prm_logp"]))
    for form, beta, weight in (("sum", 0.05, 5.0), ("norm", 0.01, 0.0)):
        told = assign("itpo", units, form=form, beta=beta, outcome_weight=weight)
        assert assign("itpo", units, form=form).advantage_S.tolist() == told.advantage_S.tolist()


def test_without_process_rewards_it_is_rloo():
    units = by_step(random_batch(3, forks=False, columns=["prm_logp"]))
    got = assign("itpo", units, process_weight=0.0, outcome_weight=1.0)
    np.testing.assert_allclose(got.advantage_S, assign("rloo", units).advantage_S, atol=1e-12)


def test_of_plain_sums_it_is_prime_over_turns():
    units = by_step(random_batch(4, forks=False, columns=["prm_logp"]))
    for baseline in ("exact", "code"):
        a, b = (assign(name, units, baseline=baseline).advantage_S for name in ("itpo", "prime"))
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_at_the_optimum_it_compares_true_gains():
    units = by_step(rollouts("policy_logp", "ref_logp", prm_logp="optimal"))
    got = assign("itpo", units, beta=BETA, process_weight=1.0, outcome_weight=0.0).advantage_S
    gains = [r - value("") for r in REWARD.values()]
    np.testing.assert_allclose(got, [g - (sum(gains) - g) / 3 for g in gains], atol=1e-12)


def test_what_it_refuses():
    with pytest.raises(DataError, match="itpo reads column:prm_logp"):
        assign("itpo", random_units(1, forks=False))
    units = by_step(random_batch(1, forks=False, columns=["prm_logp"]))
    for name, choices in (("form", "'sum' or 'norm'"), ("shares", "'sum' or 'mean' or 'length'"), ("baseline", "")):
        with pytest.raises(ConfigError, match=f"itpo: {name} is 'x'; give {choices}"):
            assign("itpo", units, **{name: "x"})
    with pytest.raises(ConfigError, match="itpo: temperature is 0; give a number above 0"):
        assign("itpo", units, temperature=0)
