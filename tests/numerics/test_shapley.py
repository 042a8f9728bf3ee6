"""Shapley values against every order of joining, by the axioms, and sampled."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from apportion.errors import ConfigError, DataError
from apportion.numerics import shapley
from apportion.numerics.shapley import (
    exact,
    exact_coalitions,
    fold_permutations,
    leave_one_out,
    leave_one_out_coalitions,
    members,
    plan_permutations,
)

WORKED = np.array([0.1, 0.5, 0.2, 0.9, -0.3, 0.1, 0.0, 0.6])
"""v(∅) .1, v(1) .5, v(2) .2, v(12) .9, v(3) -.3, v(13) .1, v(23) 0, v(123) .6."""


def slow(values, n):
    """The mean over all orders of what each player adds."""
    total = [0.0] * n
    orders = list(permutations(range(n)))
    for order in orders:
        mask = 0
        for player in order:
            total[player] += values[mask | 1 << player] - values[mask]
            mask |= 1 << player
    return [x / len(orders) for x in total]


games = st.integers(1, 5).flatmap(
    lambda n: hnp.arrays(np.float64, 2**n, elements=st.floats(-10, 10, allow_subnormal=False))
)


def size(values):
    return len(values).bit_length() - 1


def test_worked_example():
    np.testing.assert_allclose(exact(WORKED), [0.516667, 0.316667, -0.333333], atol=1e-6)
    assert exact(WORKED).sum() == pytest.approx(0.6 - 0.1)


@pytest.mark.parametrize(
    ("worth", "value"),
    [
        (lambda s: {0, 1} <= s, [0.5, 0.5, 0]),
        (lambda s: bool({0, 1} & s), [0.5, 0.5, 0]),
        (lambda s: 0 in s and not (2 in s and 1 not in s), [5 / 6, 1 / 3, -1 / 6]),
    ],
    ids=["both are needed", "either suffices", "one breaks it"],
)
def test_games_of_three_agents(worth, value):
    values = np.array([float(worth({i for i in range(3) if c >> i & 1})) for c in exact_coalitions(3)])
    np.testing.assert_allclose(exact(values), value, atol=1e-12)


@given(games)
def test_equals_the_mean_over_all_orders(values):
    np.testing.assert_allclose(exact(values), slow(values, size(values)), atol=1e-9)


@given(games)
def test_efficiency(values):
    assert exact(values).sum() == pytest.approx(values[-1] - values[0], abs=1e-9)


@given(games, st.data())
def test_a_player_who_changes_nothing_gets_exactly_nothing(values, data):
    n = size(values)
    i = data.draw(st.integers(0, n - 1))
    without = exact_coalitions(n) & ~(1 << i)
    assert exact(values[without])[i] == 0.0


@given(games, st.data())
def test_players_who_can_be_swapped_get_the_same(values, data):
    n = size(values)
    i, j = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, n - 1))
    coalition = exact_coalitions(n)
    swapped = coalition & ~(1 << i | 1 << j)
    swapped |= (coalition >> i & 1) << j | (coalition >> j & 1) << i
    phi = exact(values + values[swapped])
    assert phi[i] == pytest.approx(phi[j], abs=1e-9)


@given(games, st.floats(-3, 3), st.floats(-3, 3))
def test_linearity(values, a, b):
    other = values[::-1] ** 2
    want = a * exact(values) + b * exact(other)
    np.testing.assert_allclose(exact(a * values + b * other), want, atol=1e-8)


def test_a_constant_and_its_size_do_not_matter():
    np.testing.assert_allclose(exact(WORKED + 1e6), exact(WORKED), atol=1e-9)
    assert exact(np.full(8, 0.3)).tolist() == [0, 0, 0]


def test_many_games_at_once_and_none():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(4, 3, 2**6))
    got = exact(values)
    assert got.shape == (4, 3, 6)
    for a in range(4):
        for b in range(3):
            np.testing.assert_allclose(got[a, b], exact(values[a, b]), atol=1e-12)
    assert exact(np.array([7.0])).shape == (0,)
    assert exact(np.zeros((0, 8))).shape == (0, 3)


def test_what_exact_refuses():
    for bad in (np.zeros(6), np.zeros(0), np.float64(3)):
        with pytest.raises(DataError, match=r"shapley.exact: \d values are not those of all coalitions; give 2\*\*n"):
            exact(bad)
    with pytest.raises(ConfigError, match=r"takes up to 20 players, so sample orders with plan_permutations"):
        exact_coalitions(21)
    with pytest.raises(ConfigError, match=r"shapley.exact: 21 players have 2\*\*21 coalitions"):
        exact(np.broadcast_to(0.0, 2**21))
    with pytest.raises(ConfigError, match="n is -1; give a whole number of players from 0 on"):
        exact_coalitions(-1)


# --- sampled -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("antithetic", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5, 8, 16, 62, 63, 70])
def test_a_walk_adds_one_player_after_another(n, antithetic):
    plan = plan_permutations(n, 3, 1, antithetic=antithetic)
    assert plan.order_WP.shape == ((6 if antithetic else 3), n)
    there = members(plan.coalition_C, n)
    assert plan.coalition_C.ndim == (1 if n <= 62 else 2)
    for order, at in zip(plan.order_WP, plan.at_WP, strict=True):
        assert sorted(order) == list(range(n))
        for k in range(n + 1):
            assert set(np.flatnonzero(there[at[k]])) == set(order[:k].tolist())
    assert len({row.tobytes() for row in there}) == len(there)  # each is asked for once
    assert set(plan.at_WP.ravel().tolist()) == set(range(len(there)))
    assert not there[0].any()
    assert there[-1].all()
    if antithetic:
        assert plan.order_WP[3:].tolist() == plan.order_WP[:3, ::-1].tolist()


@pytest.mark.parametrize("antithetic", [False, True])
@pytest.mark.parametrize("n", [1, 3, 7, 65])
def test_the_fold_equals_a_loop(n, antithetic):
    rng = np.random.default_rng(n)
    plan = plan_permutations(n, 5, 3, antithetic=antithetic)
    values = rng.normal(size=len(plan.coalition_C))
    got = fold_permutations(plan, values)
    samples = []
    for order, at in zip(plan.order_WP.tolist(), plan.at_WP, strict=True):
        own = [0.0] * n
        for k, player in enumerate(order):
            own[player] = values[at[k + 1]] - values[at[k]]
        samples.append(own)
    if antithetic:
        samples = [[(x + y) / 2 for x, y in zip(samples[w], samples[w + 5], strict=True)] for w in range(5)]
    np.testing.assert_allclose(got.value, np.mean(samples, axis=0), atol=1e-12)
    np.testing.assert_allclose(got.error, np.std(samples, axis=0, ddof=1) / 5**0.5, atol=1e-12)
    assert got.value.sum() == pytest.approx(values[-1] - values[0], abs=1e-12)
    both = fold_permutations(plan, np.stack([values, -2 * values]))
    np.testing.assert_allclose(both.value, [got.value, -2 * got.value], atol=1e-12)
    np.testing.assert_allclose(both.error, [got.error, 2 * got.error], atol=1e-12)


def test_all_orders_give_the_exact_value():
    """The plan of every order there is; the estimate is then no estimate."""
    orders = np.array(list(permutations(range(3))))
    plan = plan_permutations(3, 6, antithetic=False)
    mask = np.concatenate((np.zeros((6, 1), dtype=int), np.cumsum(1 << orders, axis=1)), axis=1)
    whole = shapley.PermutationPlan(3, exact_coalitions(3), orders, mask, False)
    np.testing.assert_allclose(fold_permutations(whole, WORKED).value, exact(WORKED), atol=1e-12)
    assert plan.players == 3


@pytest.mark.parametrize("antithetic", [False, True])
def test_the_error_is_that_of_the_estimate(antithetic):
    """Over many seeds: unbiased, and as far from the truth as the standard error says."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=2**5)
    truth, off, told = exact(values), [], []
    for seed in range(300):
        plan = plan_permutations(5, 10, seed, antithetic=antithetic)
        got = fold_permutations(plan, values[plan.coalition_C])
        off.append(got.value - truth)
        told.append(got.error)
    spread = np.sqrt(np.mean(np.square(told), axis=0))
    assert (np.abs(np.mean(off, axis=0)) < 4 * spread / 300**0.5).all()
    np.testing.assert_allclose(np.std(off, axis=0), spread, rtol=0.2)


def test_pairs_cancel_what_falls_with_the_number_of_players():
    """The worked game of the specification: a pair of reverses has a fourth of the error of two orders."""
    pairs, singles = [], []
    for order in permutations(range(3)):
        mask = np.concatenate(([0], np.cumsum([1 << i for i in order])))
        own = np.zeros(3)
        own[list(order)] = np.diff(WORKED[mask])
        back = np.concatenate(([0], np.cumsum([1 << i for i in order[::-1]])))
        reverse = np.zeros(3)
        reverse[list(order[::-1])] = np.diff(WORKED[back])
        pairs.append((own + reverse) / 2)
        singles.append(own)
    np.testing.assert_allclose(np.std(singles, axis=0), [0.121335, 0.167498, 0.074536], atol=1e-6)
    np.testing.assert_allclose(np.std(pairs, axis=0), [0.023570] * 3, atol=1e-6)
    off = {}
    for antithetic in (False, True):
        got = []
        for seed in range(200):
            plan = plan_permutations(3, 2 if antithetic else 4, seed, antithetic=antithetic)
            got.append(fold_permutations(plan, WORKED[plan.coalition_C]).value)
        off[antithetic] = np.std(got, axis=0)
    assert (off[True] < 0.45 * off[False]).all()


def test_a_seed_repeats_and_a_generator_goes_on():
    a, b = (plan_permutations(6, 4, 7).order_WP.tolist() for _ in range(2))
    assert a == b
    rng = np.random.default_rng(7)
    assert plan_permutations(6, 4, rng).order_WP.tolist() == a
    assert plan_permutations(6, 4, rng).order_WP.tolist() != a
    assert plan_permutations(6, 4, 8).order_WP.tolist() != a


def test_one_sample_says_nothing_of_its_error():
    plan = plan_permutations(3, 1)
    got = fold_permutations(plan, WORKED[plan.coalition_C])
    assert np.isnan(got.error).all()
    assert got.value.sum() == pytest.approx(0.5)


def test_what_sampling_refuses():
    for n in (0, 2.0, True):
        with pytest.raises(ConfigError, match=r"plan_permutations: n is .*; give a whole number of players from 1 on"):
            plan_permutations(n, 1)
    for m in (0, 1.5, True):
        with pytest.raises(ConfigError, match=r"plan_permutations: m is .*; give a whole number of orders from 1 on"):
            plan_permutations(3, m)
    with pytest.raises(DataError, match=r"fold_permutations: 2 values for \d coalitions; give one for each, in the"):
        fold_permutations(plan_permutations(3, 2), np.zeros(2))


# --- leave one out --------------------------------------------------------------------------------------------------


def test_leave_one_out_is_not_shapley():
    # needs both / either suffices / player 2 breaks it unless 1 is present: sums of 2, 0 and 2
    for worth, want in (
        (lambda s: {0, 1} <= s, [1, 1, 0]),
        (lambda s: bool({0, 1} & s), [0, 0, 0]),
        (lambda s: 0 in s and not (2 in s and 1 not in s), [1, 1, 0]),
    ):
        values = [float(worth({i for i in range(3) if c >> i & 1})) for c in leave_one_out_coalitions(3)]
        assert leave_one_out(np.array(values)).tolist() == want
    assert leave_one_out(np.array([[5.0, 1, 2], [1, 1, 1]])).tolist() == [[4, 3], [0, 0]]


@pytest.mark.parametrize("n", [1, 4, 62, 63])
def test_everybody_but_one(n):
    there = members(leave_one_out_coalitions(n), n)
    assert there[0].all()
    assert (there[1:] == ~np.eye(n, dtype=bool)).all()


def test_what_leave_one_out_refuses():
    with pytest.raises(DataError, match=r"shapley[.]leave_one_out: no values; give that of everybody"):
        leave_one_out(np.zeros(0))
    with pytest.raises(ConfigError, match="leave_one_out_coalitions: n is 0; give a whole number of players from 1 on"):
        leave_one_out_coalitions(0)


@given(st.integers(1, 70), st.integers(0, 2**32))
@settings(max_examples=30)
def test_masks_and_rows_are_the_same_coalitions(n, seed):
    there = np.random.default_rng(seed).random((9, n)) < 0.5
    assert (members(shapley.as_coalitions(there), n) == there).all()


# --- an independent implementation -----------------------------------------------------------------------------------


def test_against_shapiq():
    computer = pytest.importorskip("shapiq.game_theory.exact", reason="shapiq is not installed").ExactComputer
    rng = np.random.default_rng(0)
    for n in (3, 6, 8):
        values = rng.normal(size=2**n)
        values[0] = 0.0

        def game(there, values=values, n=n):
            return values[np.atleast_2d(there).astype(np.int64) @ (1 << np.arange(n))]

        theirs = computer(game, n_players=n)("SV", 1)
        np.testing.assert_allclose(exact(values), [theirs[(i,)] for i in range(n)], atol=1e-9)
