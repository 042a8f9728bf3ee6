"""SWEET-RL's credit is the critic's number, turn by turn.

No enumerable truth: what the number is worth is the critic's affair, see tests/models/test_sweet.py.
"""

import math

import numpy as np
import pytest

import apportion as ap
from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from tests.make import random_units
from tests.plain import plain


def test_the_worked_numbers():
    """Turns of three and two tokens: mean log-ratios .0667 and .3."""
    steps = [
        Step(prompt_ids=[1], ids=[2] * n, rewards={"advantage": a}, turn=k)
        for k, (n, a) in enumerate([(3, 0.2 / 3), (2, 0.3)])
    ]
    units = ap.by_turn(Batch.from_trajectories([Trajectory(steps, outcome=1.0)]))
    np.testing.assert_allclose(ap.assign("sweet_rl", units).advantage_S, [0.0667, 0.3], atol=5e-5)


def slow_reference(batch, part):
    out = []
    for r, t in zip(plain(batch), batch.trajectories, strict=True):
        out += [step.rewards.get(part, math.nan) if r.valid else math.nan for step in t.steps]
    return np.array(out)


@pytest.mark.parametrize("seed", range(20))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False, parts=True)
    for part in ("work", "format"):
        got, want = ap.assign("sweet_rl", units, part=part), slow_reference(units.batch, part)
        np.testing.assert_array_equal(got.known_S, np.isfinite(want))
        np.testing.assert_array_equal(got.advantage_S, np.nan_to_num(want))


def test_a_part_that_nobody_told_is_named():
    units = ap.by_turn(Batch.from_trajectories([Trajectory([Step(ids=[1], rewards={"x": 1.0})], outcome=1.0)]))
    with pytest.raises(DataError, match=r"sweet_rl reads reward_parts:advantage, .*Step.rewards\['advantage'\]"):
        ap.assign("sweet_rl", units)
