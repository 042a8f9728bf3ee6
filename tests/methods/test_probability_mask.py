"""No enumerable truth exists for a mask; which tokens it keeps, written out below, *is* its definition."""

import math

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.units import by_segment, by_token
from tests.make import random_units, units_of

probability_mask = get("probability_mask").call
P = [0.99, 0.95, 0.6, 0.97, 0.85, 0.99, 0.3, 0.92, 0.7, 0.99, 0.5, 0.98]


def test_worked_example():
    # V at the boundaries 2, 6, 10 is .4 .6 .2 and the score 1; the first two tokens have no value to start from
    batch = Batch.from_trajectories([Trajectory([Step(prompt_ids=[9], ids=range(12), logp=np.log(P), reward=1.0)])])
    units = by_segment(batch, "cutpoint", interval=2)
    credit = Credit(np.array([0, 0.6 - 0.4, 0.2 - 0.6, 1 - 0.2]), units)
    np.testing.assert_allclose(credit.to_tokens().advantage_T[1:], [0] * 2 + [0.2] * 4 + [-0.4] * 4 + [0.8] * 2)
    masked = probability_mask(credit)
    tokens = masked.to_tokens()
    np.testing.assert_allclose(
        (tokens.advantage_T * tokens.weight_T)[1:], [0, 0, 0.2, 0, 0.2, 0, -0.4, 0, -0.4, 0, 0.8, 0]
    )
    assert tokens.weight_T.sum() == 5
    assert masked.notes["tokens_too_sure"] == 7
    white = get("whiten").call(masked).to_tokens()
    got = white.advantage_T[white.weight_T > 0]
    np.testing.assert_allclose(got, [0.239046, 0.239046, -0.956183, -0.956183, 1.434274], atol=1e-6)


def test_a_token_at_the_threshold_is_sure():
    step = Step(ids=[1, 2, 3], logp=np.log([0.9, 0.8999999, 1.0]), reward=1.0)
    credit = assign("reinforce", by_token(Batch.from_trajectories([Trajectory([step])])))
    assert probability_mask(credit).to_tokens().weight_T.tolist() == [0, 1, 0]
    assert probability_mask(credit, rho=1.0).to_tokens().weight_T.tolist() == [1, 1, 0]


@pytest.mark.parametrize("rho", [0.2, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, rho):
    credit = assign("grpo", random_units(seed, forks=False))
    before = credit.to_tokens()
    want, t = [], 0
    for trajectory in credit.units.batch:
        for step in trajectory.steps:
            for logp in [0.0] * len(step.prompt_ids) + step.logp.tolist():
                want.append(before.weight_T[t] if math.exp(logp) < rho else 0.0)
                t += 1
    after = probability_mask(credit, rho=rho).to_tokens()
    assert after.weight_T.tolist() == want
    assert after.advantage_T.tolist() == before.advantage_T.tolist()


def test_it_adds_to_a_mask_that_is_there():
    units = random_units(4, forks=False)
    narrow = assign("grpo | probability_mask(rho=0.3)", units)
    both = assign("grpo | probability_mask(rho=0.9) | probability_mask(rho=0.3)", units)
    assert both.to_tokens().weight_T.tolist() == narrow.to_tokens().weight_T.tolist()


def test_whitening_after_it_counts_the_tokens_that_are_left():
    tokens = assign("grpo | probability_mask(rho=0.5) | whiten", random_units(4, forks=False)).to_tokens()
    assert tokens.advantage_T[tokens.weight_T > 0].mean() == pytest.approx(0.0, abs=1e-12)


def test_a_batch_without_any_doubt_has_an_empty_mask():
    step = Step(ids=[1, 2], logp=[0.0, -1e-9], reward=1.0)
    units = by_token(Batch.from_trajectories([Trajectory([step], group="g")] * 2))
    credit = assign("reinforce | probability_mask | whiten", units)
    assert credit.to_tokens().weight_T.tolist() == [0] * 4


def test_what_it_refuses():
    with pytest.raises(DataError, match="probability_mask reads logp_S"):
        assign("grpo | probability_mask", units_of([0], [1], [("A", 1)]))
    with pytest.raises(ConfigError, match=r"rho is 0; a probability threshold lies in \(0, 1\]"):
        assign("grpo | probability_mask(rho=0)", random_units(1))
