import numpy as np
import pytest

from apportion.assign import assign
from apportion.errors import ConfigError
from tests.make import batch_of, random_units, units_of
from tests.plain import plain, spread
from tests.tree import average, q, tree_units, value


def test_worked_example():
    # outcomes 1 and 0 over 3 and 2 tokens: baseline 3/5
    units = units_of([0, 0], [1, 1], [("A", 1, 3), ("A", 0, 2)])
    np.testing.assert_allclose(assign("opo", units).advantage_S, [0.4, -0.6])


def test_a_group_of_one_and_equal_outcomes():
    units = units_of("abbb", [1] * 4, [("A", 7, 3), ("A", 0.3, 2), ("A", 0.3, 5), ("A", 0.3, 1)])
    assert assign("opo", units).advantage_S.tolist() == [0, 0, 0, 0]
    assert assign("opo", units, group_of_one="raw").advantage_S.tolist() == [7, 0, 0, 0]
    assert assign("opo", units).notes == {"groups": 2, "groups_of_one": 1, "constant_groups": 1}


def slow_opo(rollouts, group_of_one):
    for r in rollouts:
        members = [o for o in rollouts if o.group == r.group and o.valid]
        if not r.valid:
            advantage = 0.0
        elif len(members) == 1:
            advantage = r.outcome if group_of_one == "raw" else 0.0
        else:
            lengths = [sum(o.tokens) for o in members]
            weighted = sum(n * o.outcome for n, o in zip(lengths, members, strict=True))
            advantage = r.outcome - weighted / sum(lengths) if spread([o.outcome for o in members], 0) else 0.0
        yield from [advantage] * len(r.rewards)


@pytest.mark.parametrize("group_of_one", ["zero", "raw"])
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, group_of_one):
    units = random_units(seed)
    want = list(slow_opo(plain(units.batch), group_of_one))
    np.testing.assert_allclose(assign("opo", units, group_of_one=group_of_one).advantage_S, want, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_with_equal_lengths_it_is_dr_grpo(seed):
    rng = np.random.default_rng(seed)
    steps = [("A", float(rng.normal()), 3) for _ in range(8)]
    units = units_of([0] * 5 + [1] * 3, [1] * 8, steps)
    np.testing.assert_allclose(assign("opo", units).advantage_S, assign("dr_grpo", units).advantage_S, atol=1e-12)


def test_its_mean_is_the_true_advantage_up_to_one_constant():
    # a baseline that is the same for all members cancels between the actions of a state
    units, moves = tree_units()
    got = average(assign("opo", units).advantage_S, moves)
    assert got["root", "L"] - got["root", "R"] == pytest.approx(q("root", "L", 1.0) - q("root", "R", 1.0))
    assert got["root", "L"] != pytest.approx(q("root", "L", 1.0) - value("root", 1.0))


def test_the_baseline_has_the_least_length_weighted_variance():
    steps = [("A", r, n) for r, n in [(1.0, 3), (0.0, 7), (0.4, 2), (2.0, 5)]]
    batch = batch_of([0] * 4, [1] * 4, steps)
    from apportion.units import by_episode

    units = by_episode(batch)
    reward, length = units.outcome_N, units.tokens_S
    baseline = float((reward - assign("opo", units).advantage_S)[0])
    grid = np.linspace(-1, 3, 4001)
    loss = (length[:, None] * (reward[:, None] - grid) ** 2).sum(axis=0)
    assert grid[loss.argmin()] == pytest.approx(baseline, abs=6e-4)


def test_what_it_refuses():
    with pytest.raises(ConfigError, match="opo: group_of_one is 'x'; give one of 'zero', 'raw'"):
        assign("opo", units_of([0], [1], [("A", 1)]), group_of_one="x")
