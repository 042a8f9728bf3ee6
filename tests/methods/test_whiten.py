"""No enumerable truth exists for a normalisation; mean 0 and variance 1 over the counted tokens *is* its definition."""

import dataclasses
from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.errors import ConfigError, DataError
from apportion.methods import get
from apportion.units import by_token
from tests.make import random_units, units_of

whiten = get("whiten").call


def test_worked_example():
    # credit 3, 0 over units of 1 and 3 tokens: by token 3 0 0 0, mean 3/4, sample variance 9/4; by unit mean 3/2
    units = units_of([0, 0], [1, 1], [("A", 3, 1), ("A", 0, 3)])
    credit = Credit(np.array([3.0, 0.0]), units)
    np.testing.assert_allclose(whiten(credit).advantage_S, [1.5, -0.5])
    np.testing.assert_allclose(whiten(credit, ddof=0).advantage_S, [3**0.5, -(3**-0.5)])
    np.testing.assert_allclose(whiten(credit, over="unit").advantage_S, [0.5**0.5, -(0.5**0.5)])
    np.testing.assert_allclose(whiten(credit, shift=False).advantage_S, [2.0, 0.0])
    # std 3/2 and 1/2 more; variance 9/4 and 7/4 more
    np.testing.assert_allclose(whiten(credit, epsilon=0.5).advantage_S, [2.25 / 2, -0.75 / 2])
    np.testing.assert_allclose(whiten(credit, epsilon=1.75, inside=True).advantage_S, [2.25 / 2, -0.75 / 2])


def test_the_released_whitening_of_four_tokens():
    # token advantages of the masked GAE example, verl: 1e-8 under the root
    units = by_token(units_of([0], [1], [("A", 1, 4)]).batch)
    credit = Credit(np.array([0.465987, 0.385250, 0.195, 0.1]), units)
    want = [1.065199, 0.585890, -0.543554, -1.107534]
    np.testing.assert_allclose(whiten(credit, epsilon=1e-8, inside=True).advantage_S, want, atol=2e-6)


def slow_whiten(credit, over, shift, ddof, epsilon, inside):
    values = []  # one entry per counted token, or per counted unit
    for s, a in enumerate(credit.advantage_S):
        if credit.known_S[s] and credit.train_S[s]:
            values += [float(a)] * (int(credit.units.tokens_S[s]) if over == "token" else 1)
    mean = sum(values) / len(values)
    variance = sum((v - mean) ** 2 for v in values) / (len(values) - ddof)
    std = (variance + epsilon) ** 0.5 if inside else variance**0.5 + epsilon
    for s, a in enumerate(credit.advantage_S):
        counted = credit.known_S[s] and credit.train_S[s]
        yield (a - (mean if shift else 0.0)) / std if counted else a


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    base = assign("gigpo", random_units(seed, forks=False))
    drawn = np.random.default_rng(seed).random(len(base.units)) < 0.7
    for credit in (base, dataclasses.replace(base, train_S=drawn, parts={})):
        how = product(["token", "unit"], [True, False], [0, 1], [(0.0, False), (0.1, False), (0.1, True)])
        for over, shift, ddof, (epsilon, inside) in how:
            got = whiten(credit, over=over, shift=shift, ddof=ddof, epsilon=epsilon, inside=inside)
            want = list(slow_whiten(credit, over, shift, ddof, epsilon, inside))
            np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)
            np.testing.assert_allclose(sum(got.parts.values()), got.advantage_S, atol=1e-9)


def test_the_result_has_mean_zero_and_variance_one_over_sampled_tokens():
    tokens = assign("gigpo | whiten", random_units(2, forks=False)).to_tokens()
    counted = tokens.advantage_T[tokens.weight_T > 0]
    assert counted.mean() == pytest.approx(0.0, abs=1e-12)
    assert counted.var(ddof=1) == pytest.approx(1.0)


def test_whitening_twice_changes_nothing_and_is_named():
    units = random_units(2, forks=False)
    once, twice = assign("gigpo | whiten", units), assign("gigpo | whiten | whiten", units)
    np.testing.assert_allclose(once.advantage_S, twice.advantage_S, atol=1e-12)
    assert "normalised_twice" not in once.notes
    assert twice.notes["normalised_twice"] == 1
    assert assign("grpo | scale(by='rms') | whiten", units).notes["normalised_twice"] == 1


def test_over_units_of_one_group_it_is_grpo():
    units = units_of([0] * 4, [1] * 4, [("A", r) for r in (1, 0, 3, 1)])
    np.testing.assert_allclose(assign("dr_grpo | whiten", units).advantage_S, assign("grpo", units).advantage_S)


def test_without_spread_the_result_is_exactly_zero():
    units = units_of([0] * 7, [1] * 7, [("A", 0.3)] * 7)
    credit = whiten(Credit(np.full(7, 0.3), units, parts={"a": np.full(7, 0.1), "b": np.full(7, 0.2)}))
    assert credit.advantage_S.tolist() == [0.0] * 7
    assert {name: part.tolist() for name, part in credit.parts.items()} == {"a": [0.0] * 7, "b": [0.0] * 7}
    assert credit.notes["no_spread"] == 1
    assert whiten(Credit(np.array([5.0]), units_of([0], [1], [("A", 1)]))).advantage_S.tolist() == [0.0]


def test_a_large_common_offset_leaves_parts_that_add_up():
    units = units_of([0] * 4, [1] * 4, [("A", 1)] * 4)
    credit = whiten(Credit(1e8 + np.array([1.0, 0.0, 0.0, -1.0]), units))  # the shift cancels eight digits
    np.testing.assert_allclose(sum(credit.parts.values()), credit.advantage_S, atol=1e-6)


def test_nothing_counted_is_left_alone():
    units = units_of([0, 0], [1, 1], [("A", 1), ("A", 0)])
    credit = whiten(Credit(np.array([1.0, 2.0]), units, train_S=np.zeros(2, dtype=bool)))
    assert credit.advantage_S.tolist() == [1.0, 2.0]


def test_what_it_refuses():
    units = random_units(1, forks=False)
    with pytest.raises(ConfigError, match="whiten: over is 'batch'; give 'token' or 'unit'"):
        assign("grpo | whiten(over='batch')", units)
    with pytest.raises(
        DataError, match=r"whiten is a transform and takes apportion.Credit, got Units.*'grpo \| whiten'"
    ):
        whiten(units)
