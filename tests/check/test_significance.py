"""Permutation tests, many tests at once, and rank correlation: against slow references and under the null."""

from itertools import permutations
from math import comb

import numpy as np
import pytest

from apportion.bench.check.states import _doors
from apportion.check import check
from apportion.check.significance import benjamini_hochberg, permutation_p, rank_correlation, ranks, within
from apportion.data import Batch


def slow_bh(p, q):
    m = len(p)
    order = sorted(range(m), key=lambda i: p[i])
    last = max((k for k, i in enumerate(order, 1) if p[i] <= q * k / m), default=0)
    return {order[k] for k in range(last)}


@pytest.mark.parametrize("seed", range(30))
def test_benjamini_hochberg_equals_the_definition(seed):
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(int(rng.integers(0, 30))) ** 3, 3)
    assert set(np.flatnonzero(benjamini_hochberg(p, 0.1)).tolist()) == slow_bh(p.tolist(), 0.1)


def test_benjamini_hochberg_rejects_what_stands_alone_and_what_stands_together():
    assert benjamini_hochberg([0.011, 0.5], 0.02).tolist() == [False, False]
    assert benjamini_hochberg([0.011, 0.02], 0.02).tolist() == [True, True]  # 0.02 reaches 2/2 of 0.02


def test_false_discoveries_stay_below_the_rate():
    rng = np.random.default_rng(0)
    wrong = sum(benjamini_hochberg(rng.random(50), 0.1).any() for _ in range(400))
    assert wrong / 400 < 0.15  # without any effect each rejection is false


def draws_of(values, rng):
    return lambda n: np.array([rng.permutation(values)[:3].sum() for _ in range(n)])


def test_the_p_value_of_a_permutation_is_close_to_the_exact_one():
    values = np.array([5.0, 4.0, 3.0, 1.0, 0.5, 0.2, 0.1])
    observed = 5.0 + 4.0 + 1.0
    sums = [sum(order[:3]) for order in permutations(values)]
    exact = np.mean([s >= observed - 1e-12 for s in sums])
    assert exact == pytest.approx(2 / comb(7, 3))
    p = permutation_p(observed, draws_of(values, np.random.default_rng(1)), most=20_000)
    assert p == pytest.approx(exact, rel=0.5)


def test_p_values_under_the_null_are_not_too_small():
    rng = np.random.default_rng(2)
    p = []
    for _ in range(300):
        values = rng.normal(size=8)
        p.append(permutation_p(values[:3].sum(), draws_of(values, rng), most=400, at_once=50))
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(p) <= level) <= level + 3 * np.sqrt(level * (1 - level) / 300)


def test_nothing_reached_is_one_over_all_draws():
    assert permutation_p(10.0, lambda n: np.zeros(n), most=1000) == pytest.approx(1 / 1001)
    assert permutation_p(0.0, lambda n: np.zeros(n), most=1000) == 1.0  # stops at the tenth


@pytest.mark.parametrize("seed", range(10))
def test_rearrangements_stay_in_their_stratum(seed):
    rng = np.random.default_rng(seed)
    stratum = rng.integers(0, 4, size=17)
    orders = within(stratum, 50, rng)
    assert all(sorted(order) == list(range(17)) for order in orders.tolist())
    assert all((stratum[order] == stratum).all() for order in orders)
    assert len({tuple(order) for order in orders.tolist()}) > 1


def slow_ranks(values):
    return [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]


@pytest.mark.parametrize("seed", range(10))
def test_ranks_and_their_correlation(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 5, size=12), rng.normal(size=12)
    np.testing.assert_allclose(ranks(a), slow_ranks(a.tolist()))
    expected = np.corrcoef(slow_ranks(a.tolist()), slow_ranks(b.tolist()))[0, 1]
    assert rank_correlation(a, b) == pytest.approx(expected)
    assert rank_correlation(a, np.ones(12)) == 0.0
    assert rank_correlation(b, np.exp(b)) == pytest.approx(1.0)


def test_hidden_state_is_convicted_with_its_table():
    world = _doors(np.random.default_rng(5), hidden=True)
    (finding,) = check(world).of("partial-observability")
    evidence = finding.evidence
    assert evidence["action"] == "open the door"
    assert evidence["state"] == "You are in the corridor."
    keyed = [t for t in world if "cellar" in (t.steps[1].observation or "")]
    at = {"You are in the cellar.": keyed, "You are in the attic.": [t for t in world if t not in keyed]}
    had = at[evidence["had_been_in"]]
    assert evidence["with"][1] == len(had)
    assert {tuple(evidence["with"]), tuple(evidence["without"])} & {(len(had), len(had)), (0, len(had))}
    assert evidence["p"] < 1e-3


def test_chance_is_hardly_ever_convicted():
    accused = sum(
        bool(
            check(Batch.from_trajectories(_doors(np.random.default_rng(900 + seed), hidden=False))).of(
                "partial-observability"
            )
        )
        for seed in range(40)
    )
    assert accused <= 2
