"""No enumerable truth exists for a factor; dividing by a size leaves exactly that size 1, which is its definition."""

import math

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods import get
from tests.make import random_units, units_of

scale = get("scale").call


def test_worked_example():
    units = units_of([0] * 4, [1] * 4, [("A", 1)] * 4)
    credit = Credit(np.array([3.0, 1.0, 1.0, -1.0]), units)  # squares 9 1 1 1; mean 1, deviations 2 0 0 -2
    assert scale(credit, by=2).advantage_S.tolist() == [6.0, 2.0, 2.0, -2.0]
    np.testing.assert_allclose(scale(credit, by="rms").advantage_S, np.array([3, 1, 1, -1]) / 3**0.5)
    np.testing.assert_allclose(scale(credit, by="std").advantage_S, np.array([3, 1, 1, -1]) / (8 / 3) ** 0.5)
    np.testing.assert_allclose(scale(credit, by="max").advantage_S, [1, 1 / 3, 1 / 3, -1 / 3])


def slow_size(values, by):
    mean = sum(values) / len(values)
    return {
        "rms": math.sqrt(sum(v * v for v in values) / len(values)),
        "std": math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1)),
        "max": max(abs(v) for v in values),
    }[by]


@pytest.mark.parametrize("by", ["rms", "std", "max", -0.5, 3])
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, by):
    before = assign("gigpo", random_units(seed, forks=False))
    after = scale(before, by=by)
    counted = [a for a, known in zip(before.advantage_S.tolist(), before.known_S, strict=True) if known]
    factor = by if not isinstance(by, str) else 1 / slow_size(counted, by)
    np.testing.assert_allclose(after.advantage_S, [a * factor for a in before.advantage_S.tolist()], rtol=1e-12)
    for name, part in before.parts.items():
        np.testing.assert_allclose(after.parts[name], part * factor, rtol=1e-12)


def test_by_a_number_it_is_a_weight():
    units = random_units(4)
    np.testing.assert_allclose(
        assign("grpo | scale(by=0.3)", units).advantage_S, assign("0.3*grpo", units).advantage_S, rtol=1e-15
    )


def test_dropped_and_unknown_units_do_not_set_the_size():
    units = units_of([0] * 3, [1] * 3, [("A", 1), ("A", 1), ("A", None)])
    credit = Credit(np.array([2.0, 50.0, 0.0]), units, train_S=np.array([True, False, True]))
    assert scale(credit, by="max").advantage_S.tolist() == [1.0, 25.0, 0.0]


def test_zero_credit_stays_zero():
    units = units_of([0], [1], [("A", 1)])
    for by in ("rms", "std", "max"):
        assert scale(Credit(np.zeros(1), units), by=by).advantage_S.tolist() == [0.0]


def test_what_it_refuses():
    credit = assign("grpo", random_units(1))
    with pytest.raises(ConfigError, match="scale: by is 'var'; give a number or one of 'rms', 'std', 'max'"):
        scale(credit, by="var")
    for by in (math.inf, math.nan):
        with pytest.raises(ConfigError, match=r"scale: by is .*; give a finite number"):
            scale(credit, by=by)
