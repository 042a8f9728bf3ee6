from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_token
from tests.make import random_units, units_of
from tests.methods.test_grpo import slow_grpo
from tests.plain import plain
from tests.token_tree import BETA, REWARD, rollouts, value


def of_ratios(*rows, outcomes):
    steps = [Step(prompt_ids=[0], ids=range(len(r)), logp=np.array(r) - 1, ref_logp=-np.ones(len(r))) for r in rows]
    return by_token(
        Batch.from_trajectories([Trajectory([s], outcome=o, group="g") for s, o in zip(steps, outcomes, strict=True)])
    )


def test_worked_example():
    # beta .05: sums .01 .005 .02 | .005 .01 | -.02; means per step -.001667 .0075 .02
    units = of_ratios([0.2, -0.1, 0.3], [0.1, 0.1], [-0.4], outcomes=(1, 0, 0))
    credit = assign("spro", units, epsilon=1e-6)
    process = [0.011667, -0.0025, 0, 0.006667, 0.0025, -0.018333]
    np.testing.assert_allclose(credit.parts["process"], process, atol=1e-6)
    want = [1.166365, 1.152199, 1.154699, -0.570683, -0.574849, -0.595683]
    np.testing.assert_allclose(credit.advantage_S, want, atol=1e-6)


def slow(units, beta, limit):
    """Process part per unit, from the rollouts as given."""
    rollouts_ = plain(units.batch)
    sums = []
    for trajectory in units.batch:
        ratio = [beta * (sum(step.logp.tolist()) - sum(step.ref_logp.tolist())) for step in trajectory.steps]
        sums.append([sum(ratio[: s + 1]) for s in range(len(ratio))])
    for n, own in enumerate(sums):
        for s, c in enumerate(own):
            peers = [
                other[s]
                for m, other in enumerate(sums)
                if rollouts_[m].valid and rollouts_[m].group == rollouts_[n].group and len(other) > s
            ]
            m = c - sum(peers) / len(peers) if rollouts_[n].valid else 0.0
            yield m if limit is None else max(-limit, min(limit, m))


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False)
    for beta, w, limit, scale, ddof in product([0.05, 1.0], [1.0, 0.1], [None, 0.3], ["std", "none"], [0, 1]):
        credit = assign("spro", units, beta=beta, process_weight=w, limit=limit, scale=scale, ddof=ddof, epsilon=1e-4)
        process = w * np.array(list(slow(units, beta, limit)))
        outcome = np.array(list(slow_grpo(plain(units.batch), scale, ddof, 1e-4)))
        np.testing.assert_allclose(credit.parts["process"], process, atol=1e-9)
        np.testing.assert_allclose(credit.parts["outcome"], outcome, atol=1e-9)
        np.testing.assert_allclose(credit.advantage_S, process + outcome, atol=1e-9)


def test_where_the_policy_is_its_reference_it_is_grpo():
    units = of_ratios([0.0, 0.0], [0.0], [0.0, 0.0, 0.0], outcomes=(1, 0, 0.5))
    assert assign("spro", units).advantage_S.tolist() == assign("grpo", units).advantage_S.tolist()
    random = random_units(7, forks=False)
    np.testing.assert_allclose(
        assign("spro", random, process_weight=0.0).advantage_S, assign("grpo", random).advantage_S, atol=1e-12
    )


def test_the_only_survivor_of_a_step_is_compared_with_nobody():
    units = of_ratios([0.2, -0.1, 0.3], [0.1, 0.1], [-0.4], outcomes=(1, 0, 0))
    assert assign("spro", units).parts["process"][2] == 0.0


def test_at_the_optimum_it_compares_the_true_values_of_prefixes():
    # C = V*(prefix) - V*(start): the unknown value of the start cancels inside the group
    process = assign("spro", by_token(rollouts()), beta=BETA).parts["process"]
    for t in range(2):
        truth = [value(text[:1]) if t == 0 else REWARD[text] for text in REWARD]
        want = [v - sum(truth) / 4 for v in truth]
        np.testing.assert_allclose(process[t::2], want, atol=1e-12)


def test_what_it_refuses():
    units = random_units(1, forks=False)
    with pytest.raises(DataError, match="spro reads logp_S"):
        assign("spro", units_of([0], [1], [("A", 1)]))
    with pytest.raises(ConfigError, match="spro: scale is 'batch'; give 'std' or 'none'"):
        assign("spro", units, scale="batch")
    for limit in (0, -1):
        with pytest.raises(ConfigError, match=r"spro: limit is .*; give a number above 0, or None"):
            assign("spro", units, limit=limit)
