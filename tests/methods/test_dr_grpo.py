from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from tests.make import random_units, units_of
from tests.plain import peers, plain
from tests.tree import average, q, tree_units, value


def test_worked_example():
    # rewards 1 0 0 0: mean 1/4
    units = units_of([0] * 4, [1] * 4, [("A", r) for r in (1, 0, 0, 0)])
    assert assign("dr_grpo", units).advantage_S.tolist() == [0.75, -0.25, -0.25, -0.25]


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed)
    rollouts, want = plain(units.batch), []
    for r in rollouts:
        xs = peers(rollouts, r.group)
        want += [r.outcome - sum(xs) / len(xs) if r.valid and len(xs) > 1 else 0.0] * len(r.rewards)
    np.testing.assert_allclose(assign("dr_grpo", units).advantage_S, want, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_it_is_grpo_times_the_std(seed):
    units = random_units(seed, largest=8)
    plain_S, scaled_S = assign("dr_grpo", units).advantage_S, assign("grpo", units).advantage_S
    for group in set(units.group_of_N.tolist()):
        members = units.valid_N & (units.group_of_N == group)
        std = float(np.std(units.outcome_N[members], ddof=1)) if members.sum() > 1 else 0.0
        mine = units.group_of_S == group
        np.testing.assert_allclose(plain_S[mine], scaled_S[mine] * std, atol=1e-12)


def test_its_mean_is_the_true_advantage_at_the_root():
    units, moves = tree_units()
    got = average(assign("dr_grpo", units).advantage_S, moves)
    for action in "LR":
        assert got["root", action] == pytest.approx(q("root", action, 1.0) - value("root", 1.0))


@pytest.mark.parametrize("n", [2, 3, 5])
def test_small_groups_shrink_it_by_one_member(n):
    # all groups of n draws from {0: 1/2, 1: 1/4, 4: 1/4}: E[A | R = r] = (n - 1)/n (r - mean), mean = 5/4
    draws, share = (0, 0, 1, 4), 5 / 4
    groups = list(product(draws, repeat=n))
    flat = [("A", r) for group in groups for r in group]
    units = units_of([g for g in range(len(groups)) for _ in range(n)], [1] * len(flat), flat)
    first = assign("dr_grpo", units).advantage_S.reshape(-1, n)[:, 0]
    for r in set(draws):
        got = np.mean([a for a, group in zip(first, groups, strict=True) if group[0] == r])
        assert got == pytest.approx((n - 1) / n * (r - share))
