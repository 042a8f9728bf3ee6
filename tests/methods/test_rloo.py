from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.errors import ConfigError
from tests.make import random_units, units_of
from tests.plain import peers, plain
from tests.tree import average, q, tree_units, value


def test_worked_example():
    # rewards 1 0 0 0: the winner against (0 + 0 + 0)/3, each loser against (1 + 0 + 0)/3
    units = units_of([0] * 4, [1] * 4, [("A", r) for r in (1, 0, 0, 0)])
    np.testing.assert_allclose(assign("rloo", units).advantage_S, [1, -1 / 3, -1 / 3, -1 / 3], rtol=1e-15)


def test_a_group_of_one_gets_zero_not_its_raw_score():
    credit = assign("rloo", units_of("abb", [1, 1, 1], [("A", 0.6), ("A", 1), ("A", 0)]))
    assert credit.advantage_S.tolist() == [0.0, 1.0, -1.0]
    assert credit.notes["groups_of_one"] == 1
    raw = assign("rloo", credit.units, group_of_one="raw")
    assert raw.advantage_S.tolist() == [0.6, 1.0, -1.0]
    with pytest.raises(ConfigError, match="rloo: group_of_one is 'x'; give one of 'zero', 'raw'"):
        assign("rloo", credit.units, group_of_one="x")


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed)
    rollouts, want, raw = plain(units.batch), [], []
    for i, r in enumerate(rollouts):
        others = [o.outcome for j, o in enumerate(rollouts) if j != i and o.group == r.group and o.valid]
        want += [r.outcome - sum(others) / len(others) if r.valid and others else 0.0] * len(r.rewards)
        lone = r.valid and not others
        raw += [r.outcome if lone else want[-1]] * len(r.rewards)
    np.testing.assert_allclose(assign("rloo", units).advantage_S, want, atol=1e-9)
    np.testing.assert_allclose(assign("rloo", units, group_of_one="raw").advantage_S, raw, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_it_is_dr_grpo_times_n_over_n_minus_one(seed):
    units = random_units(seed)
    rollouts = plain(units.batch)
    size = {r.group: len(peers(rollouts, r.group)) for r in rollouts}
    n_S = np.array([max(size[r.group], 2) for r in rollouts])[units.traj_of_S]
    want = assign("dr_grpo", units).advantage_S * n_S / (n_S - 1)
    np.testing.assert_allclose(assign("rloo", units).advantage_S, want, atol=1e-12)


def test_its_mean_is_nearly_the_true_advantage_at_the_root():
    # when every path is seen once, n = 6 of them: exactly 6/5 of it, because the others leave one path out
    units, moves = tree_units()
    got = average(assign("rloo", units).advantage_S, moves)
    for action in "LR":
        assert got["root", action] == pytest.approx(6 / 5 * (q("root", action, 1.0) - value("root", 1.0)))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_it_is_unbiased_for_every_group_size(n):
    # all groups of n draws from {0: 1/2, 1: 1/4, 4: 1/4}: E[A | R = r] = r - mean, mean = 5/4
    draws = (0, 0, 1, 4)
    groups = list(product(draws, repeat=n))
    flat = [("A", r) for group in groups for r in group]
    units = units_of([g for g in range(len(groups)) for _ in range(n)], [1] * len(flat), flat)
    first = assign("rloo", units).advantage_S.reshape(-1, n)[:, 0]
    for r in set(draws):
        got = np.mean([a for a, group in zip(first, groups, strict=True) if group[0] == r])
        assert got == pytest.approx(r - 5 / 4)
