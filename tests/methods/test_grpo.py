from itertools import product
from math import comb

import numpy as np
import pytest

from apportion.assign import assign
from apportion.errors import ConfigError
from apportion.units import by_episode
from tests.make import batch_of, random_units, units_of
from tests.plain import peers, plain, spread
from tests.tree import average, q, tree_units, value


def outcomes(*rewards, group=None):
    """One trajectory of one step for each reward."""
    return units_of(group or [0] * len(rewards), [1] * len(rewards), [("A", r) for r in rewards])


def test_worked_example():
    # rewards 1 0 0 0: mean 1/4; sample std 1/2, population std sqrt(3)/4
    units = outcomes(1, 0, 0, 0)
    np.testing.assert_allclose(assign("grpo", units).advantage_S, [1.5, -0.5, -0.5, -0.5], rtol=1e-15)
    np.testing.assert_allclose(assign("grpo", units, ddof=0).advantage_S, [3**0.5, *[-(3**-0.5)] * 3], rtol=1e-12)
    assert assign("grpo", units, scale="none").advantage_S.tolist() == [0.75, -0.25, -0.25, -0.25]


def test_the_epsilons_of_the_hosts():
    units = outcomes(1, 0, 0, 0)
    verl = assign("grpo", units, epsilon=1e-6).advantage_S
    np.testing.assert_allclose(verl[:2], [1.499997, -0.499999], atol=5e-7)
    np.testing.assert_allclose(assign("grpo", units, epsilon=1e-4).advantage_S[:2], [1.4997, -0.4999], atol=5e-5)
    np.testing.assert_allclose(assign("grpo", units, ddof=0, epsilon=1e-8).advantage_S[0], 1.732051, atol=5e-7)


def test_the_numbers_of_the_report_that_ended_it():
    # verl-project/verl#6348: two rewards 1e-5 apart, std 7.07e-6
    units = units_of([0, 0], [1, 1], [("A", 1.0), ("A", 1.00001)])
    np.testing.assert_allclose(assign("grpo", units, epsilon=1e-6).advantage_S, [-0.6195, 0.6195], atol=2e-4)
    np.testing.assert_allclose(assign("grpo", units, epsilon=1e-6, floor=1e-6).advantage_S, [-0.005, 0.005], atol=1e-5)


def test_the_least_variance_of_an_earlier_verl():
    # outcomes 0.5 +- 1e-4: variance 2e-8 is below verl's epsilon 1e-6, which stood in for it: 1e-4 / (1e-3 + 1e-6)
    units = outcomes(0.5001, 0.4999, 1, 0, 2, 2, group="aabbcc")
    early = assign("grpo", units, epsilon=1e-6, floor=1e-6).advantage_S
    late = assign("grpo", units, epsilon=1e-6).advantage_S
    np.testing.assert_allclose(early[:2], [1e-4 / 1.001e-3, -1e-4 / 1.001e-3], rtol=1e-9)
    np.testing.assert_allclose(late[:2], [1e-4 / (2**0.5 * 1e-4 + 1e-6), -1e-4 / (2**0.5 * 1e-4 + 1e-6)], rtol=1e-9)
    np.testing.assert_allclose(early[2:], late[2:], rtol=1e-15)
    assert early[4:].tolist() == [0, 0]


def test_a_batch_without_spread_gives_zeros():
    assert assign("grpo", outcomes(0.3, 0.3, 0.3), scale="batch").advantage_S.tolist() == [0, 0, 0]
    assert assign("grpo", outcomes(0.3, 0.3, 0.3), floor=0.5).advantage_S.tolist() == [0, 0, 0]


def test_a_group_of_one_and_a_constant_group_get_zero_and_are_counted():
    credit = assign("grpo", outcomes(7, 0.3, 0.3, 0.3, 1, 0, group="abbbcc"))
    assert credit.advantage_S[:4].tolist() == [0, 0, 0, 0]
    assert credit.notes == {"groups": 3, "groups_of_one": 1, "constant_groups": 1}


def test_rows_or_rollouts_vote():
    # outcomes 1 over three rows and 0 over one: mean 1/2 by rollout, 3/4 by row
    units = units_of([0, 0], [3, 1], [("A", 0), ("A", 0), ("A", 1), ("A", 0)])
    assert assign("grpo", units, scale="none").advantage_S.tolist() == [0.5, 0.5, 0.5, -0.5]
    assert assign("grpo", units, scale="none", votes="row").advantage_S.tolist() == [0.25, 0.25, 0.25, -0.75]
    np.testing.assert_allclose(assign("grpo", units, votes="row").advantage_S, [0.5, 0.5, 0.5, -1.5])


def test_a_lone_outcome_stays_raw_in_verl():
    units = outcomes(7, 1, 0, group="abb")
    got = assign("grpo", units, group_of_one="raw", epsilon=1e-6).advantage_S
    np.testing.assert_allclose(got[0], 7 / (1 + 1e-6))
    assert assign("grpo", units, group_of_one="raw", scale="none").advantage_S.tolist() == [7, 0.5, -0.5]


def test_who_is_unknown_leaves_the_counts_of_groups_too():
    # of two members one is unscored: the other is alone; of three one is: the two that are left are equal
    notes = assign("grpo", outcomes(1, None, 0.5, 0.5, None, group="aabbb")).notes
    assert notes == {"groups": 2, "groups_of_one": 1, "constant_groups": 1, "unknown_trajectories": 2}


def slow_grpo(rollouts, scale, ddof, epsilon, votes="trajectory", group_of_one="zero", floor=0.0):
    def copies(r):
        return len(r.rewards) if votes == "row" else 1

    everyone = spread([r.outcome for r in rollouts if r.valid for _ in range(copies(r))], ddof)
    for r in rollouts:
        xs = peers(rollouts, r.group)
        if votes == "row":
            xs = [o.outcome for o in rollouts if o.group == r.group and o.valid for _ in range(copies(o))]
        if r.valid and len(xs) == 1 and group_of_one == "raw":
            divisor = {"std": 1 + epsilon, "none": 1.0, "batch": max(everyone, floor**0.5) + epsilon}[scale]
            advantage = r.outcome / divisor if scale != "batch" or everyone else 0.0
        elif not r.valid or len(xs) < 2:
            advantage = 0.0
        else:
            advantage = r.outcome - sum(xs) / len(xs)
            if scale == "std":
                std = spread(xs, ddof)
                advantage = advantage / (max(std, floor**0.5) + epsilon) if std else 0.0
            elif scale == "batch":
                most = max(everyone, floor**0.5)
                advantage = advantage / (most + epsilon) if everyone and spread(xs, 0) else 0.0
            elif not spread(xs, 0):
                advantage = 0.0
        yield from [advantage] * len(r.rewards)


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed)
    rollouts = plain(units.batch)
    for scale, ddof, epsilon in product(["std", "none", "batch"], [0, 1], [0.0, 0.1]):
        got = assign("grpo", units, scale=scale, ddof=ddof, epsilon=epsilon).advantage_S
        np.testing.assert_allclose(got, list(slow_grpo(rollouts, scale, ddof, epsilon)), atol=1e-9)
        how = {"votes": "row", "group_of_one": "raw"} if seed % 2 else {"group_of_one": "raw"}
        for floor in (0.0, 0.2, 4.0):
            got = assign("grpo", units, scale=scale, ddof=ddof, epsilon=epsilon, floor=floor, **how).advantage_S
            want = list(slow_grpo(rollouts, scale, ddof, epsilon, floor=floor, **how))
            np.testing.assert_allclose(got, want, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_without_scale_it_is_dr_grpo(seed):
    units = random_units(seed)
    assert assign("grpo", units, scale="none").advantage_S.tolist() == assign("dr_grpo", units).advantage_S.tolist()


def test_in_one_group_batch_scale_is_group_scale():
    units = outcomes(1, 0, 3, 1, 2)
    batch, group = (assign("grpo", units, scale=s).advantage_S for s in ("batch", "std"))
    np.testing.assert_allclose(batch, group, rtol=1e-15)


def test_its_mean_is_the_true_advantage_at_the_root():
    # the batch is the distribution: mean over the paths through (s, a) of R - mean R is E[R | s, a] - V(root)
    units, moves = tree_units()
    got = average(assign("grpo", units, scale="none").advantage_S, moves)
    assert got["root", "L"] == pytest.approx(q("root", "L", 1.0) - value("root", 1.0))
    assert got["root", "R"] == pytest.approx(q("root", "R", 1.0) - value("root", 1.0))
    # deeper it is not: the reward before the state is in it, and the baseline is that of the root
    assert got["left", "l"] == pytest.approx(0.25 + q("left", "l", 1.0) - value("root", 1.0))


@pytest.mark.parametrize("n", [2, 3, 4, 6])
@pytest.mark.parametrize("scale", ["none", "std"])
def test_the_bias_of_small_groups_is_the_known_one(n, scale):
    # every group of n coin flips with success probability p, as often as its probability says
    p, groups = 0.3, list(product([1, 0], repeat=n))
    units = by_episode(
        batch_of(
            [g for g in range(len(groups)) for _ in range(n)],
            [1] * n * len(groups),
            [("A", r) for group in groups for r in group],
        )
    )
    first = assign("grpo", units, scale=scale).advantage_S.reshape(-1, n)[:, 0]
    weight = np.array([p ** sum(group) * (1 - p) ** (n - sum(group)) for group in groups])
    won = np.array([group[0] == 1 for group in groups])
    got = float((weight * first)[won].sum() / weight[won].sum())
    if scale == "none":  # the member's own outcome is in the mean: shrunk by (n - 1) / n
        assert got == pytest.approx((n - 1) / n * (1 - p))
    else:  # k successes: (1 - k/n) / sqrt(k (n - k) / (n (n - 1)))
        want = sum(
            comb(n - 1, k - 1) * p ** (k - 1) * (1 - p) ** (n - k) * (1 - k / n) / (k * (n - k) / n / (n - 1)) ** 0.5
            for k in range(1, n)
        )
        assert got == pytest.approx(want)


def test_unknown_choices_are_refused():
    with pytest.raises(ConfigError, match="grpo: votes is 'unit'; give one of 'trajectory', 'row'"):
        assign("grpo", outcomes(1, 0), votes="unit")
    with pytest.raises(ConfigError, match="grpo: group_of_one is 'x'; give one of 'zero', 'raw'"):
        assign("grpo", outcomes(1, 0), group_of_one="x")
    with pytest.raises(ConfigError, match="grpo: scale is 'var'; give one of 'std', 'none', 'batch'"):
        assign("grpo", outcomes(1, 0), scale="var")
