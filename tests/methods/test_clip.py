"""No enumerable truth exists for a cut-off of single credits; the slow reference is its definition."""

import math

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods import get
from tests.make import random_units, units_of

clip = get("clip").call


def test_worked_example():
    units = units_of([0] * 4, [1] * 4, [("A", 1)] * 4)
    credit = clip(Credit(np.array([3.0, 0.5, -0.5, -7.0]), units), limit=2)
    assert credit.advantage_S.tolist() == [2.0, 0.5, -0.5, -2.0]
    assert credit.parts["clip"].tolist() == [-1.0, 0.0, 0.0, 5.0]
    assert credit.notes == {"clipped_units": 2}


@pytest.mark.parametrize("limit", [0.1, 1, 2.5, 1e9])
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, limit):
    before = assign("gigpo", random_units(seed, forks=False))
    after = clip(before, limit=limit)
    assert after.advantage_S.tolist() == [max(-limit, min(limit, a)) for a in before.advantage_S.tolist()]
    np.testing.assert_allclose(sum(after.parts.values()), after.advantage_S, atol=1e-9)
    assert set(after.parts) == {"episode", "step", "clip"}


def test_beyond_the_largest_credit_it_changes_nothing():
    credit = assign("grpo", random_units(3))
    same = clip(credit, limit=1e9)
    assert same.advantage_S.tolist() == credit.advantage_S.tolist()
    assert same.notes == credit.notes


def test_twice_is_the_tighter_limit():
    units = random_units(3)
    twice = assign("grpo | clip(limit=0.5) | clip(limit=1)", units)
    assert twice.advantage_S.tolist() == assign("grpo | clip(limit=0.5)", units).advantage_S.tolist()
    np.testing.assert_allclose(sum(twice.parts.values()), twice.advantage_S, atol=1e-12)


@pytest.mark.parametrize(
    ("limit", "instead"),
    [(0, "a number above 0"), (-1, "a number above 0"), (math.nan, "a finite number"), ("2", "a finite number")],
)
def test_a_limit_must_be_above_zero(limit, instead):
    with pytest.raises(ConfigError, match=rf"clip: limit is {limit!r}; give {instead}"):
        clip(assign("grpo", random_units(1)), limit=limit)


def test_the_limit_has_no_default():
    with pytest.raises(ConfigError, match="clip needs the parameter 'limit'; see `apportion describe clip`"):
        assign("grpo | clip", random_units(1))
