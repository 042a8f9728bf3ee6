from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_step, by_token
from tests.make import random_batch, random_units
from tests.plain import plain
from tests.token_tree import BETA, REWARD, rollouts, value

CODE = {"baseline": "code", "last_token": "zero"}


def of_q(*rows, outcomes, beta=0.05):
    """Rollouts of one step whose implicit token rewards are the given ones."""
    steps = [
        Step(prompt_ids=[0], ids=range(len(q)), ref_logp=-np.ones(len(q)), columns={"prm_logp": np.array(q) / beta - 1})
        for q in rows
    ]
    return by_token(
        Batch.from_trajectories([Trajectory([s], outcome=o, group="g") for s, o in zip(steps, outcomes, strict=True)])
    )


def test_worked_example():
    # q = .02 .04 0 | -.02 0; means .02 and -.01; process .03 .07 -.01 | -.05 -.01; outcome +1 | -1
    units = of_q([0.02, 0.04, 0.7], [-0.02, 0.7], outcomes=(1, 0))  # the last token's reward is not read
    credit = assign("prime", units, **CODE)
    np.testing.assert_allclose(credit.advantage_S, [5.45, 5.3, 4.95, -5.3, -5.05], atol=1e-9)
    np.testing.assert_allclose(credit.parts["outcome"], [5, 5, 5, -5, -5])
    white = assign("prime(baseline='code', last_token='zero') | whiten", units).advantage_S
    np.testing.assert_allclose(white, [0.767822, 0.741526, 0.680171, -1.116672, -1.072847], atol=1e-6)
    # largest sum to the end .06
    scaled = assign("prime", units, normalise="batch", epsilon=0.0, **CODE).parts["process"]
    np.testing.assert_allclose(scaled, credit.parts["process"] / 0.06)


def test_exact_and_published_baseline():
    # means .3 and 0; n = 2
    units = of_q([0.2, 0.4], [-0.3, 0.1, 0.2], outcomes=(1, 1))
    for baseline, want in (("exact", [0.2, 0.4, -0.6, -0.2, -0.1]), ("code", [0.1, 0.5, -0.9, -0.1, 0.1])):
        got = assign("prime", units, baseline=baseline, gamma=0.0, process_weight=1.0).parts["process"]
        np.testing.assert_allclose(got, want, atol=1e-12)


def slow(units, beta, gamma, baseline, last_token, normalise):
    """Process and outcome part per unit; units are tokens."""
    told = plain(units.batch)
    q = []
    for trajectory in units.batch:
        own = []
        for step in trajectory.steps:
            own += [beta * (a - b) for a, b in zip(step.columns["prm_logp"], step.ref_logp, strict=True)]
        q.append(own)
    if last_token == "zero":
        q = [[*own[:-1], 0.0] if own else own for own in q]
    if normalise == "batch":
        sums = [abs(sum(own[t:])) for own, r in zip(q, told, strict=True) if r.valid for t in range(len(own))]
        q = [[x / (max(sums) + 1e-6) for x in own] for own in q]
    for n, own in enumerate(q):
        members = [m for m in range(len(q)) if told[m].valid and told[m].group == told[n].group]
        others = [m for m in members if m != n]
        if not told[n].valid or not others:
            yield from [(0.0, 0.0)] * len(own)
            continue
        mean = {m: sum(q[m]) / len(q[m]) for m in members}
        if baseline == "exact":
            s = [x - sum(mean[m] for m in others) / len(others) for x in own]
        else:
            s = [x * len(members) / len(others) - sum(mean.values()) / len(others) for x in own]
        last = told[n].outcome - sum(told[m].outcome for m in others) / len(others)
        for t in range(len(own)):
            process = sum(gamma ** (k - t) * s[k] for k in range(t, len(own)))
            yield process, gamma ** (len(own) - 1 - t) * last


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = by_token(random_batch(seed, forks=False, columns=["prm_logp"]))
    modes = product([0.05, 1.0], [1.0, 0.9], ["exact", "code"], ["keep", "zero"], ["none", "batch"])
    for beta, gamma, baseline, last_token, normalise in modes:
        credit = assign(
            "prime",
            units,
            beta=beta,
            gamma=gamma,
            baseline=baseline,
            last_token=last_token,
            normalise=normalise,
            process_weight=2.0,
            outcome_weight=3.0,
        )
        want = np.array(list(slow(units, beta, gamma, baseline, last_token, normalise))).reshape(-1, 2)
        np.testing.assert_allclose(credit.parts["process"], 2 * want[:, 0], atol=1e-8)
        np.testing.assert_allclose(credit.parts["outcome"], 3 * want[:, 1], atol=1e-8)
        np.testing.assert_allclose(credit.advantage_S, 2 * want[:, 0] + 3 * want[:, 1], atol=1e-8)


def test_without_process_rewards_it_is_rloo():
    units = by_step(random_batch(3, forks=False, columns=["prm_logp"]))
    got = assign("prime", units, process_weight=0.0, outcome_weight=1.0)
    np.testing.assert_allclose(got.advantage_S, assign("rloo", units).advantage_S, atol=1e-12)


def test_at_the_optimum_it_is_what_a_prefix_still_has_to_gain():
    # q is the true token advantage there, so its sum to the end is outcome - V*(prefix); the baseline takes the same
    # from every token that is left
    units = by_token(rollouts("policy_logp", "ref_logp", prm_logp="optimal"))
    got = assign("prime", units, beta=BETA, process_weight=1.0, outcome_weight=0.0).advantage_S.reshape(4, 2)
    mean = [(r - value("")) / 2 for r in REWARD.values()]
    for n, text in enumerate(REWARD):
        others = sum(m for k, m in enumerate(mean) if k != n) / 3
        want = [REWARD[text] - value(text[:t]) - (2 - t) * others for t in range(2)]
        np.testing.assert_allclose(got[n], want, atol=1e-12)


def test_a_group_of_one_has_no_credit():
    credit = assign("prime", of_q([0.2, 0.4], outcomes=(1,)), **CODE)
    assert credit.advantage_S.tolist() == [0.0, 0.0]
    assert credit.notes["groups_of_one"] == 1


def test_a_step_without_tokens_has_no_vote():
    def rollout(*logps):
        steps = [
            Step(prompt_ids=[0], ids=[1] * len(p), ref_logp=[-1.0] * len(p), columns={"prm_logp": p}) for p in logps
        ]
        return Trajectory(steps, outcome=1.0, group="g")

    batch = Batch.from_trajectories([rollout([0.0], [], [-1.0]), rollout([-0.5])])
    got = assign("prime", by_step(batch), beta=1.0, gamma=0.0, process_weight=1.0).parts["process"]
    assert got.tolist() == [0.5, 0.0, -0.5, 0.0]  # means 1/2 and 1/2


def test_what_it_refuses():
    units = random_units(1, forks=False)
    message = r"prime reads column:prm_logp.*give Step.columns\['prm_logp'\], one number for every sampled token"
    with pytest.raises(DataError, match=message):
        assign("prime", units)
    units = by_token(random_batch(1, forks=False, columns=["prm_logp"]))
    for name, choices in (
        ("baseline", "'exact' or 'code'"),
        ("last_token", "'keep' or 'zero'"),
        ("normalise", "'none'"),
    ):
        with pytest.raises(ConfigError, match=f"prime: {name} is 'x'; give {choices}"):
            assign("prime", units, **{name: "x"})
