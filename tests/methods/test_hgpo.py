from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.errors import ConfigError, DataError
from apportion.units import by_episode
from tests.make import random_units, units_of
from tests.plain import plain, spread
from tests.tree import advantages, average, tree_units

PUBLISHED = {"scale": "std", "ddof": 0, "epsilon": 1e-6, "skip_zeros": True}


def three():
    # A = x,y with returns (.95, 1); B = x,y with (0, 0); C = z,y with (.95, 1)
    return units_of([0, 0, 0], [2, 2, 2], [("x", 0), ("y", 1), ("x", 0), ("y", 0), ("z", 0), ("y", 1)])


@pytest.mark.parametrize("history", [1, 2, 5])
def test_worked_example(history):
    # 'y' group {1, 0, 1}: +.7071, -1.4142, +.7071; 'x,y' group {1, 0}: +1, -1; weights 2 : 3
    credit = assign("hgpo", three(), history=history, **PUBLISHED)
    np.testing.assert_allclose(credit.advantage_S[1::2], [0.8828, -1.1657, 0.7071], atol=5e-5)
    # without the std: (2 · 1/3 + 3 · 1/2) / 5, (-2 · 2/3 - 3 · 1/2) / 5, 1/3
    plainly = assign("hgpo", three(), history=history).advantage_S
    np.testing.assert_allclose(plainly[1::2], [13 / 30, -17 / 30, 1 / 3], rtol=1e-12)
    np.testing.assert_allclose(plainly[::2], [0.475, -0.475, 0], atol=1e-12)  # 'z' was met once


def test_the_episode_as_one_more_item():
    # outcomes 1 0 1: +1/3, -2/3, +1/3 with weight 1 beside 2 and 3
    credit = assign("hgpo", three(), history=1, episode=True)
    want = [(1 / 3 + 2 / 3 + 1.5) / 6, (-2 / 3 - 4 / 3 - 1.5) / 6, (1 / 3 + 2 / 3) / 3]
    np.testing.assert_allclose(credit.advantage_S[1::2], want, rtol=1e-12)


def test_who_is_exactly_average():
    # 'y' group {0, 1, 2}: the middle one is average there, but not among {1, 0} with the same past
    units = units_of([0, 0, 0], [2, 2, 2], [("x", 0), ("y", 0), ("x", 0), ("y", 1), ("z", 0), ("y", 2)])
    assert assign("hgpo", units, history=1).advantage_S[3] == pytest.approx((2 * 0 + 3 * 0.5) / 5)
    assert assign("hgpo", units, history=1, skip_zeros=True).advantage_S[3] == pytest.approx(0.5)


def test_a_history_longer_than_any_rollout():
    units = three()
    far, near = assign("hgpo", units, history=10**15), assign("hgpo", units, history=1)
    assert far.advantage_S.tolist() == near.advantage_S.tolist()
    assert far.notes["share_with_full_history"] == 0
    assert assign("hgpo", units, history=2).notes["share_with_full_history"] == 0


def test_notes():
    notes = assign("hgpo", three(), history=1).notes
    assert notes["state_sizes"] == "1:1 2:1 3-4:1"
    assert notes["units_without_company"] == 1
    assert notes["share_with_company"] == pytest.approx(5 / 6)
    assert notes["share_with_full_history"] == pytest.approx(2 / 6)


def slow_hgpo(rollouts, gamma, history, power, episode, scale, ddof, epsilon, skip_zeros):
    def compare(x, others):
        if not spread(others, 0):
            return 0.0
        std = spread(others, ddof)
        d = x - sum(others) / len(others)
        return d if scale == "none" else d / (std + epsilon) if std else 0.0

    returns = [
        [sum(gamma ** (k - s) * r.rewards[k] for k in range(s, len(r.rewards))) for s in range(len(r.rewards))]
        for r in rollouts
    ]
    for r, own in zip(rollouts, returns, strict=True):
        for s in range(len(r.states)):
            items = []
            for k in range(1, history + 2):
                if s + 1 < k or not r.valid:
                    break
                past = r.states[s + 1 - k : s + 1]
                same = [
                    g[t]
                    for other, g in zip(rollouts, returns, strict=True)
                    if other.valid and other.group == r.group
                    for t in range(k - 1, len(g))
                    if other.states[t + 1 - k : t + 1] == past
                ]
                if len(same) > 1:
                    items.append(((k + 1) ** power, compare(own[s], same)))
            group = [other.outcome for other in rollouts if other.valid and other.group == r.group]
            if episode and r.valid and len(group) > 1:
                items.append((1.0, compare(r.outcome, group)))
            if skip_zeros:
                items = [item for item in items if item[1]]
            yield sum(w * a for w, a in items) / sum(w for w, _ in items) if items else 0.0


MODES = list(product([1.0, 0.9], [0, 1, 3], [0.0, 1.0, 2.5], [False, True], ["none", "std"], [0, 1], [0.0, 1e-3]))


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False, states=2)
    rollouts = plain(units.batch)
    names = ("gamma", "history", "power", "episode", "scale", "ddof", "epsilon")
    for mode in MODES[seed % 12 :: 12]:
        params = dict(zip(names, mode, strict=True))
        got = assign("hgpo", units, **params).advantage_S
        np.testing.assert_allclose(got, list(slow_hgpo(rollouts, *mode, False)), atol=1e-9, err_msg=str(params))


@pytest.mark.parametrize("seed", range(10))
def test_the_published_average_equals_the_slow_reference(seed):
    # rewards of few values, so that some members are exactly average in exact arithmetic
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 5, size=6).tolist()
    steps = [(f"s{rng.integers(2)}", int(rng.integers(0, 3))) for _ in range(sum(lengths))]
    units = units_of([0, 0, 0, 0, 1, 1], lengths, steps)
    got = assign("hgpo", units, gamma=1.0, skip_zeros=True, episode=True).advantage_S
    np.testing.assert_allclose(
        got, list(slow_hgpo(plain(units.batch), 1.0, 2, 1.0, True, "none", 1, 0.0, True)), atol=1e-9
    )


@pytest.mark.parametrize("scale", ["none", "std"])
@pytest.mark.parametrize("seed", range(5))
def test_without_history_it_is_anchor(seed, scale):
    units = random_units(seed, forks=False)
    got = assign("hgpo", units, history=0, scale=scale).advantage_S
    np.testing.assert_allclose(got, assign("anchor", units, scale=scale).advantage_S, atol=1e-12)


@pytest.mark.parametrize("gamma", [1.0, 0.8])
@pytest.mark.parametrize("history", [0, 1, 2])
def test_its_mean_is_the_true_advantage_when_every_path_is_seen_once(gamma, history):
    # in the tree a state has one past, so each length compares the same units
    units, moves = tree_units(gamma)
    got = average(assign("hgpo", units, gamma=gamma, history=history).advantage_S, moves)
    assert got == pytest.approx(advantages(gamma), abs=1e-12)


def test_what_it_refuses():
    units = random_units(1, forks=False)
    with pytest.raises(ConfigError, match="hgpo: scale is 'batch'; give 'none' or 'std'"):
        assign("hgpo", units, scale="batch")
    with pytest.raises(ConfigError, match="hgpo: history is -1; give a whole number from 0 on"):
        assign("hgpo", units, history=-1)
    with pytest.raises(DataError, match="hgpo credits steps, the units are episodes"):
        assign("hgpo", by_episode(units.batch))
