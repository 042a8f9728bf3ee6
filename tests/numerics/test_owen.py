"""Owen values against the formula over blocks and the mean over orders that keep groups together."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import ConfigError, DataError
from apportion.numerics.owen import balanced, fold_owen, owen_cost, plan_owen
from apportion.numerics.shapley import exact, members
from tests.numerics.test_shapley import WORKED


def solve(tree, values, **options):
    plan = plan_owen(tree, **options)
    return fold_owen(plan, np.asarray(values)[..., plan.coalition_C])


def together(tree):
    """All orders of joining in which every group joins without a gap."""
    if isinstance(tree, int):
        return [[tree]]
    out = []
    for children in permutations(tree):
        for parts in product(*map(together, children)):
            out.append([player for part in parts for player in part])
    return out


def slow(tree, values, n):
    """The mean over these orders: what the Owen value is, whatever the levels."""
    total = [0.0] * n
    orders = together(tree)
    for order in orders:
        mask = 0
        for player in order:
            total[player] += values[mask | 1 << player] - values[mask]
            mask |= 1 << player
    return [x / len(orders) for x in total]


def test_worked_example():
    np.testing.assert_allclose(solve(((0,), (1, 2)), WORKED), [0.5, 0.325, -0.325], atol=1e-12)
    np.testing.assert_allclose(solve((0, (1, 2)), WORKED), [0.5, 0.325, -0.325], atol=1e-12)
    np.testing.assert_allclose(solve(((0, 1), (2,)), WORKED), [0.525, 0.325, -0.35], atol=1e-12)


TREES = [
    0,
    (0, 1),
    (1, 0),
    ((0, 1), (2, 3)),
    (0, (1, (2, (3, 4)))),
    ((3, 0, 1), (2,), (4, 5)),
    ((0, (1, 2)), ((3, 4), 5)),
    [[[0]], [1, 2]],
    (((0, 1), 2), (3, 4, 5)),
]


@pytest.mark.parametrize("tree", TREES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_equals_the_mean_over_orders_that_keep_groups_together(tree, seed):
    n = len(together(tree)[0])
    values = np.random.default_rng(seed).normal(size=2**n)
    got = solve(tree, values)
    np.testing.assert_allclose(got, slow(tree, values, n), atol=1e-12)
    assert got.sum() == pytest.approx(values[-1] - values[0], abs=1e-12)


def test_one_flat_group_or_groups_of_one_are_shapley():
    values = np.random.default_rng(0).normal(size=2**5)
    np.testing.assert_allclose(solve((0, 1, 2, 3, 4), values), exact(values), atol=1e-12)
    np.testing.assert_allclose(solve(((0,), (1,), (2,), (3,), (4,)), values), exact(values), atol=1e-12)


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_a_group_gets_what_it_gets_as_one_player(tree):
    if isinstance(tree, int):
        return
    n = len(together(tree)[0])
    values = np.random.default_rng(1).normal(size=2**n)
    groups = [together(child)[0] for child in tree]
    outer = np.array(
        [values[sum(1 << p for k, own in enumerate(groups) if c >> k & 1 for p in own)] for c in range(2 ** len(tree))]
    )
    got = solve(tree, values)
    np.testing.assert_allclose([got[own].sum() for own in groups], exact(outer), atol=1e-12)


@pytest.mark.parametrize(("n", "many"), [(1, 2), (2, 4), (4, 12), (8, 44), (16, 172), (32, 684)])
def test_the_cost_of_a_balanced_tree(n, many):
    assert owen_cost(balanced(n)) == many
    plan = plan_owen(balanced(n))
    assert len(plan.coalition_C) == len(set(plan.coalition_C.tolist())) == many
    assert plan.groups_whole == 0


def chain(n):
    tree = n - 1
    for player in range(n - 2, -1, -1):
        tree = (player, tree)
    return tree


def test_a_tree_that_branches_on_one_side_is_refused_or_cut_short():
    assert owen_cost(chain(8)) == 2 * (2**7 - 1) + 2
    assert len(plan_owen(chain(8)).coalition_C) == 256
    with pytest.raises(ConfigError, match=r"needs about 10\*\*60 coalitions, .* give max_coalitions, and the groups"):
        plan_owen(chain(200))
    with pytest.raises(ConfigError, match="plan_owen: this hierarchy needs 131072 coalitions"):
        plan_owen(chain(17))
    deep = plan_owen(chain(200), max_coalitions=500)
    assert 400 < len(deep.coalition_C) <= 500
    assert deep.groups_whole > 0
    assert deep.coalition_C.shape[1] == 200  # rows: there is no mask of 200 bits
    there = members(deep.coalition_C, 200)
    assert len({row.tobytes() for row in there}) == len(there)
    got = fold_owen(deep, there.sum(axis=1).astype(float))  # every player is worth 1
    np.testing.assert_allclose(got, 1.0, atol=1e-9)


def test_a_very_deep_or_wide_hierarchy_is_no_recursion():
    assert owen_cost(chain(3000)) == 2 * (2**2999 - 1) + 2
    assert owen_cost(tuple(range(3000))) == 2**3000
    plan = plan_owen(tuple(range(3000)), max_coalitions=10)
    assert len(plan.coalition_C) == 2
    assert plan.groups_whole == 1
    np.testing.assert_allclose(fold_owen(plan, np.array([1.0, 4.0])), 3 / 3000)


@given(st.integers(2, 70), st.integers(1, 7), st.integers(0, 2**32))
@settings(max_examples=40)
def test_within_any_limit_the_sum_is_exact(limit, n, seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=2**n)
    tree = balanced(n) if seed % 2 else chain(n)
    plan = plan_owen(tree, max_coalitions=limit)
    assert len(plan.coalition_C) <= limit
    got = fold_owen(plan, values[plan.coalition_C])
    assert got.sum() == pytest.approx(values[-1] - values[0], abs=1e-9)
    assert (plan.groups_whole == 0) == (limit >= owen_cost(tree))
    if not plan.groups_whole:
        np.testing.assert_allclose(got, solve(tree, values), atol=1e-12)


def test_groups_that_the_limit_leaves_whole_share_equally():
    # the root is taken apart with four coalitions, its groups are not: (v(01) - v(∅) + v(all) - v(23)) / 2, halved
    values = np.random.default_rng(2).normal(size=16)
    left = (values[3] - values[0] + values[15] - values[12]) / 2
    right = (values[12] - values[0] + values[15] - values[3]) / 2
    got = solve(((0, 1), (2, 3)), values, max_coalitions=5)
    np.testing.assert_allclose(got, [left / 2, left / 2, right / 2, right / 2], atol=1e-12)
    # two more reach the first group in one of its two contexts
    plan = plan_owen(((0, 1), (2, 3)), max_coalitions=6)
    assert (len(plan.coalition_C), plan.groups_whole) == (6, 3)


def test_what_counts_most_is_taken_apart_first():
    # under the root, (0 1) counts a half in each of two contexts; each of six in (2 .. 7) counts less
    plan = plan_owen(((0, 1), ((2, 3), (4, 5), (6, 7))), max_coalitions=4 + 2 * 2)
    apart = {int(p) for p, t in zip(plan.player_E, plan.term_E, strict=True) if plan.share_E[plan.term_E == t][0] == 1}
    assert apart == {0, 1}


def test_many_games_at_once():
    plan = plan_owen(((0, 1), (2, 3)))
    values = np.random.default_rng(0).normal(size=(2, 3, len(plan.coalition_C)))
    got = fold_owen(plan, values)
    assert got.shape == (2, 3, 4)
    np.testing.assert_allclose(got[1, 2], fold_owen(plan, values[1, 2]), atol=1e-12)


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        ((0, (1, 3)), r"a hierarchy holds the players 0 .. n - 1, each once; it has \[0, 1, 3\]"),
        ((0, (1, 1)), r"a hierarchy holds the players 0 .. n - 1, each once; it has \[0, 1, 1\]"),
        ((0, ()), "a hierarchy has an empty group; leave it out"),
        ((0, "ab"), "a hierarchy consists of players and groups, not of 'ab'; nest numbers from 0 on"),
        ((0, True), "a hierarchy consists of players and groups, not of True"),
        ((0, 1.0), "a hierarchy consists of players and groups, not of 1.0"),
    ],
)
def test_what_is_no_hierarchy(tree, sentence):
    with pytest.raises(ConfigError, match=sentence):
        plan_owen(tree)


def test_what_it_refuses():
    for bad in (1, 2.5, True):
        with pytest.raises(ConfigError, match=r"plan_owen: max_coalitions is .*; give a whole number from 2 on"):
            plan_owen((0, 1), max_coalitions=bad)
    with pytest.raises(DataError, match="fold_owen: 3 values for 4 coalitions; give one for each"):
        fold_owen(plan_owen((0, 1)), np.zeros(3))
    with pytest.raises(ConfigError, match="balanced: n is 0; give a whole number of players from 1 on"):
        balanced(0)
