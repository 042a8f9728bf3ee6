"""Who did it against who did not: exact chances, a slow reference, and what must not change them."""

import itertools
import math

import numpy as np
import pytest

from apportion.report import comparison
from apportion.report.comparison import WAYS, compare, compare_actions


def test_a_worked_example():
    # 6 choose 3 = 20 ways to hand out 1 1 1 0 0 0; only the two extreme ones differ by 1
    found = compare([1, 1, 1], [0, 0, 0])
    assert found == (3, 1.0, 3, 0.0, pytest.approx(2 / 20))
    assert found.difference == 1.0


def test_few_rollouts_cannot_convince():
    assert compare([1.0], [0.0]).chance == 1.0
    assert compare([1.0, 1.0], [0.0]).chance == pytest.approx(1 / 3)


def slow_chance(did, others):
    every = [*did, *others]
    seen = abs(math.fsum(did) / len(did) - math.fsum(others) / len(others))
    hits = ways = 0
    for picked in itertools.combinations(range(len(every)), len(did)):
        one = [every[i] for i in picked]
        two = [every[i] for i in range(len(every)) if i not in picked]
        ways += 1
        hits += abs(math.fsum(one) / len(one) - math.fsum(two) / len(two)) >= seen - 1e-9
    return hits / ways


@pytest.mark.parametrize("seed", range(30))
def test_equals_the_slow_reference(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, size=2)
    draw = (lambda n: rng.integers(0, 2, n).astype(float)) if seed % 2 else (lambda n: rng.normal(size=n) * 100)
    did, others = draw(sizes[0]).tolist(), draw(sizes[1]).tolist()
    assert compare(did, others).chance == pytest.approx(slow_chance(did, others))
    assert compare(others, did).chance == pytest.approx(slow_chance(did, others))


def test_wins_and_losses_are_exact_at_any_size():
    assert compare([1.0] * 10, [0.0] * 10).chance == pytest.approx(2 / math.comb(20, 10))
    assert compare([1.0, 0.0] * 5, [0.0, 1.0] * 5).chance == 1.0
    did, others = [3.0] * 4 + [-1.0] * 4, [3.0] * 2 + [-1.0] * 6  # 12,870 ways
    assert compare(did, others).chance == pytest.approx(slow_chance(did, others))
    assert 0 < compare([1.0] * 300, [0.0] * 300).chance < 1e-100


def test_many_ways_are_drawn_and_no_chance_is_zero():
    rng = np.random.default_rng(0)
    far = compare((rng.normal(size=12) + 9).tolist(), rng.normal(size=12).tolist())
    assert math.comb(24, 12) > WAYS
    assert far.chance == 1 / (WAYS + 1)
    did, others = rng.normal(size=7).tolist(), (rng.normal(size=8) + 0.8).tolist()  # 6,435 ways
    assert compare(did, others).chance == pytest.approx(slow_chance(did, others), abs=0.03)


def test_beyond_the_draws_the_normal_approximation_takes_over_smoothly(monkeypatch):
    rng = np.random.default_rng(1)
    did, others = (rng.normal(size=40) + 0.4).tolist(), rng.normal(size=60).tolist()
    normal = compare(did, others).chance
    monkeypatch.setattr(comparison, "DRAWN", 1000)
    comparison.chance.cache_clear()
    assert normal == pytest.approx(compare(did, others).chance, abs=0.02)
    comparison.chance.cache_clear()


def test_where_chance_does_it_all_small_chances_are_rare():
    rng = np.random.default_rng(0)
    chances = [compare(x[:4].tolist(), x[4:].tolist()).chance for x in rng.normal(size=(400, 9))]
    assert np.mean(np.array(chances) <= 0.05) == pytest.approx(0.05, abs=0.025)


def test_each_rollout_has_one_vote():
    visits = [(0, "a"), (0, "a"), (0, "b"), (1, "b"), (2, "b"), (3, "a")]
    outcomes = {0: 1.0, 1: 0.0, 2: 0.5}  # nobody scored 3
    found = {action: (places, comparison) for action, places, comparison in compare_actions(visits, outcomes)}
    assert found["a"] == ([0, 1, 5], compare([1.0], [0.0, 0.5]))
    assert found["b"] == ([2, 3, 4], compare([1.0, 0.0, 0.5], []))
    assert found["b"][1].chance is None
