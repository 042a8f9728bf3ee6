import numpy as np
import pytest

from apportion.errors import ConfigError
from apportion.numerics.value_quality import (
    by_position,
    errors_of,
    explained_variance,
    ranking_of,
    sampled_within,
    sampling_error,
    strata,
)


@pytest.mark.parametrize(
    ("p", "want"),
    [
        (0.1, 0.39),
        (0.9, 0.39),
        (1 / 3, 0.27),
        (0.5, 0.0),
        (0.05, 0.0),
        (0.02, 0.83),
        (0.98, 0.83),
        (0.0, 1.0),
        (1.0, 1.0),
    ],
)
def test_share_within_that_nine_samples_have(p, want):
    assert sampled_within([p], 9) == pytest.approx(want, abs=0.005)


@pytest.mark.parametrize(("k", "want"), [(9, 0.1667), (3, 0.2887), (1, 0.5)])
def test_sampling_error_at_one_half(k, want):
    assert np.sqrt(sampling_error([0.5], k)) == pytest.approx(want, abs=5e-5)


def test_both_floors_are_what_sampling_gives():
    rng = np.random.default_rng(0)
    p = rng.random(40)
    drawn = rng.binomial(9, p, size=(4000, 40)) / 9
    assert sampling_error(p, 9) == pytest.approx(((drawn - p) ** 2).mean(), rel=0.03)
    assert sampled_within(p, 9) == pytest.approx((np.abs(drawn - p) < 0.05).mean(), abs=0.01)


def test_errors():
    got = errors_of([0.0, 0.5, 0.96], [0.0, 0.45, 1.0])
    assert got.states == 3
    assert got.absolute == pytest.approx(0.03)
    assert got.squared == pytest.approx((0.05**2 + 0.04**2) / 3)
    assert got.within == pytest.approx(2 / 3)  # 0.05 away is not within 0.05
    assert errors_of([0.5], [0.45], tolerance=0.06).within == 1
    assert np.isnan(errors_of([], []).within)


def test_strata_and_positions():
    assert strata([0.0, 0.02, 0.5, 0.98, 1.0]).tolist() == [0, 1, 3, 6, 6]
    got = by_position([1.0, 0.0, 0.5], [0.0, 0.0, 0.0], [0, 2, 2])
    assert got[0] == 1
    assert np.isnan(got[1])
    assert got[2] == 0.25
    assert len(by_position([], [], [])) == 0


def test_explained_variance_hides_noise_in_the_values():
    y = np.array([0.0, 0.0, 1.0, 1.0])
    assert explained_variance(y + 3, y) == 1.0  # a shift is not seen
    assert explained_variance([0.5] * 4, y) == 0.0
    assert explained_variance([0.2, -0.2, 0.8, 1.2], y) == pytest.approx(1 - 0.04 / 0.25)
    assert np.isnan(explained_variance([1.0, 2.0], [1.0, 1.0]))


def test_ranking_by_hand():
    # set 0: the best action has the best value, one pair of three is wrong. set 1: two actions only, right
    got = ranking_of([0.9, 0.1, 0.2, 1.0, 0.0], [1.0, 0.5, 0.2, 0.4, 0.1], [0, 0, 0, 1, 1])
    assert (got.pairs, got.sets) == (4, 1)
    assert got.pairwise == pytest.approx(3 / 4)
    assert (got.top1, got.chance) == (1.0, pytest.approx(1 / 3))
    # equal values: wrong, or half right
    tied = ([0.5, 0.5, 0.1], [1.0, 0.3, 0.0], [7, 7, 7])
    assert ranking_of(*tied).pairwise == pytest.approx(2 / 3)
    assert ranking_of(*tied).top1 == 0.0
    assert ranking_of(*tied, ties="half").pairwise == pytest.approx(2.5 / 3)
    assert ranking_of(*tied, ties="half").top1 == 0.5
    # equal truth: no pair, and either may be the best
    got = ranking_of([0.1, 0.9, 0.0], [1.0, 1.0, 0.0], [0, 0, 0])
    assert (got.pairs, got.top1, got.chance) == (2, 1.0, pytest.approx(2 / 3))
    assert ranking_of([0.1, 0.9, 0.0], [1.0, 1.0, 0.0], [0, 0, 0], gap=1.0).sets == 0
    assert np.isnan(ranking_of([], [], []).pairwise)
    with pytest.raises(ConfigError, match="ties is 'right'; give 'wrong' or 'half'"):
        ranking_of(*tied, ties="right")


@pytest.mark.parametrize("seed", range(20))
def test_ranking_equals_the_slow_reference(seed):
    rng = np.random.default_rng(seed)
    sets = rng.integers(0, 6, 25)
    value, truth = rng.integers(0, 4, 25) / 4, rng.integers(0, 4, 25) / 4
    for ties, gap in (("wrong", 0.0), ("half", 0.3)):
        got = ranking_of(value, truth, sets, ties=ties, gap=gap)
        pairs = right = count = top = 0
        for g in range(6):
            own = [i for i in range(25) if sets[i] == g]
            told = 0
            for a in own:
                for b in own:
                    if a < b and abs(truth[a] - truth[b]) > gap:
                        told += 1
                        agree = (value[a] - value[b]) * (truth[a] - truth[b])
                        right += 1 if agree > 0 else 0.5 if agree == 0 and ties == "half" else 0
            pairs += told
            if len(own) >= 3 and told:
                count += 1
                best = [i for i in own if truth[i] >= max(truth[own]) - gap]
                chosen = [i for i in own if value[i] == max(value[own])]
                hit = [i in best for i in chosen]
                top += sum(hit) / len(hit) if ties == "half" else all(hit)
        assert got.pairs == pairs
        assert got.sets == count
        assert got.pairwise == pytest.approx(right / pairs)
        if count:
            assert got.top1 == pytest.approx(top / count)


def test_values_without_meaning_reach_chance():
    rng = np.random.default_rng(1)
    got = ranking_of(rng.random(5000), rng.random(5000), np.arange(5000) // 5)
    assert got.pairwise == pytest.approx(0.5, abs=0.02)
    assert got.top1 == pytest.approx(got.chance, abs=0.04)
    assert got.chance == pytest.approx(0.2)
