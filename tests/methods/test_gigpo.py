from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.errors import ConfigError, DataError
from apportion.units import by_episode
from tests.make import random_units, units_of
from tests.methods.test_anchor import AT_ANCHOR, TOY, TOY_STEPS, slow_anchor
from tests.plain import plain, spread
from tests.tree import advantages, average, q, tree_units, value


def test_the_mission_table():
    # discount .9; returns .9, 0, 0, .6561 from one anchor state
    units = units_of(**TOY, steps=TOY_STEPS)
    for ddof, want in ((0, [1.28, -0.98, -0.98, 0.67]), (1, [1.11, -0.85, -0.85, 0.58])):
        step_S = assign("gigpo", units, gamma=0.9, scale="std", ddof=ddof).parts["step"]
        np.testing.assert_allclose(step_S[AT_ANCHOR], want, atol=5e-3)


def test_a_full_pass_by_hand():
    # gamma .95, success 10: i0 = s0 s1 s2 wins, i1 = s0 s1 fails, i2 = s0 s3 s0 s1 s2 wins (it meets s0 twice)
    steps = [("s0", 0), ("s1", 0), ("s2", 10), ("s0", 0), ("s1", 0)]
    steps += [("s0", 0), ("s3", 0), ("s0", 0), ("s1", 0), ("s2", 10)]
    units = units_of([0, 0, 0], [3, 2, 5], steps)
    credit = assign("gigpo", units)
    step = [2.4762, 3.1667, 0, -6.5488, -6.3333, 1.5963, 0, 2.4762, 3.1667, 0]
    episode = [3.3333] * 3 + [-6.6667] * 2 + [3.3333] * 5
    whole = [5.8096, 6.5, 3.3333, -13.2154, -13.0, 4.9296, 3.3333, 5.8096, 6.5, 3.3333]
    np.testing.assert_allclose(credit.parts["step"], step, atol=1e-4)
    np.testing.assert_allclose(credit.parts["episode"], episode, atol=1e-4)
    np.testing.assert_allclose(credit.advantage_S, whole, atol=1e-4)
    scaled = assign("gigpo", units, scale="std").parts["step"]
    np.testing.assert_allclose(scaled, [0.5646, 0.5774, 0, -1.4933, -1.1547, 0.3640, 0, 0.5646, 0.5774, 0], atol=1e-4)
    assert credit.notes["own_repeats"] == 1
    assert credit.notes["units_without_company"] == 1


def test_long_failures_do_not_drag_the_episode_mean():
    # R = 10 0 10 0, lengths 3 50 4 50: mean 5 by trajectory, .6542 by row
    lengths = [3, 50, 4, 50]
    steps = [(f"{i}.{s}", 10 if i % 2 == 0 and s == n - 1 else 0) for i, n in enumerate(lengths) for s in range(n)]
    units = units_of([0] * 4, lengths, steps)
    assert set(assign("gigpo", units).parts["episode"].tolist()) == {5.0, -5.0}
    scaled = assign("gigpo", units, scale="std").parts["episode"]
    np.testing.assert_allclose(np.unique(scaled.round(4)), [-0.8660, 0.8660])


def test_the_released_code_on_long_failures():
    # the same, each row with a vote: mean .6542, sample std 2.4843
    lengths = [3, 50, 4, 50]
    steps = [(f"{i}.{s}", 10 if i % 2 == 0 and s == n - 1 else 0) for i, n in enumerate(lengths) for s in range(n)]
    units = units_of([0] * 4, lengths, steps)
    parts = np.unique(assign("gigpo", units, votes="row").parts["episode"].round(4))
    np.testing.assert_allclose(parts, [-0.6542, 9.3458], atol=1e-4)
    scaled = assign("gigpo", units, votes="row", scale="std", epsilon=1e-6).parts["episode"]
    np.testing.assert_allclose(np.unique(scaled.round(4)), [-0.2633, 3.7619], atol=1e-4)


def test_the_released_code_on_the_full_pass_and_on_a_lone_trajectory():
    steps = [("s0", 0), ("s1", 0), ("s2", 10), ("s0", 0), ("s1", 0)]
    steps += [("s0", 0), ("s3", 0), ("s0", 0), ("s1", 0), ("s2", 10)]
    units = units_of([0, 0, 0], [3, 2, 5], steps)
    whole = [4.4762, 5.1667, 2.0, -14.5488, -14.3333, 3.5963, 2.0, 4.4762, 5.1667, 2.0]
    np.testing.assert_allclose(assign("gigpo", units, votes="row").advantage_S, whole, atol=1e-4)
    alone = units_of(["a", "b", "b"], [1, 1, 1], [("s", 7), ("s", 1), ("s", 0)])
    assert assign("gigpo", alone).parts["episode"].tolist() == [0, 0.5, -0.5]
    assert assign("gigpo", alone, group_of_one="raw").parts["episode"].tolist() == [7, 0.5, -0.5]
    scaled = assign("gigpo", alone, group_of_one="raw", scale="std", epsilon=0.75).parts["episode"]
    assert scaled[0] == 4.0
    longer = units_of(["a"], [2], [("s", 0), ("t", 7)])  # two rows with one score: no spread, 0
    assert assign("gigpo", longer, group_of_one="raw", votes="row").parts["episode"].tolist() == [0, 0]
    assert assign("gigpo", longer, group_of_one="raw").parts["episode"].tolist() == [7, 7]


def slow_episode(rollouts, scale, ddof, votes, group_of_one, epsilon):
    for r in rollouts:
        xs = [
            other.outcome
            for other in rollouts
            if other.valid and other.group == r.group
            for _ in (other.rewards if votes == "row" else [0])
        ]
        std = spread(xs, ddof)
        if not r.valid:
            advantage = 0.0
        elif len(xs) == 1:
            advantage = 0.0 if group_of_one == "zero" else r.outcome / (1 + epsilon if scale == "std" else 1)
        elif not spread(xs, 0):
            advantage = 0.0
        else:
            advantage = (r.outcome - sum(xs) / len(xs)) / (std + epsilon if scale == "std" else 1)
        yield from [advantage] * len(r.rewards)


MODES = list(product(["none", "std"], [0, 1], ["trajectory", "row"], ["zero", "raw"], [0.0, 1e-3]))


@pytest.mark.parametrize("seed", range(64))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False)
    rollouts = plain(units.batch)
    scale, ddof, votes, group_of_one, epsilon = MODES[seed % len(MODES)]
    episode = np.array(list(slow_episode(rollouts, scale, ddof, votes, group_of_one, epsilon)))
    shared = {"scale": scale, "ddof": ddof, "votes": votes, "group_of_one": group_of_one, "epsilon": epsilon}
    for gamma, repeats in product([1.0, 0.9], ["all", "once"]):
        step = np.array(list(slow_anchor(rollouts, gamma, scale, ddof, repeats, epsilon)))
        for w in (0.0, 0.3, 1.0):
            credit = assign("gigpo", units, gamma=gamma, step_weight=w, repeats=repeats, **shared)
            np.testing.assert_allclose(credit.parts["episode"], episode, atol=1e-9)
            np.testing.assert_allclose(credit.parts["step"], w * step, atol=1e-9)
            np.testing.assert_allclose(credit.advantage_S, episode + w * step, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_it_is_the_sum_of_its_neighbours(seed):
    units = random_units(seed, forks=False)
    whole = assign("gigpo", units, gamma=0.9, step_weight=0.3)
    spelled = assign("dr_grpo + 0.3*anchor(gamma=0.9)", units)
    np.testing.assert_allclose(whole.advantage_S, spelled.advantage_S, atol=1e-12)
    parity = {"baseline": "others", "scope": "batch"}
    whole = assign("gigpo", units, **parity)
    spelled = assign("dr_grpo + anchor(baseline='others', scope='batch')", units)
    np.testing.assert_allclose(whole.advantage_S, spelled.advantage_S, atol=1e-12)
    late = random_units(seed, forks=False, parts=True)
    whole = assign("gigpo", late, undiscounted="work")
    spelled = assign("dr_grpo + anchor(undiscounted='work')", late)
    np.testing.assert_allclose(whole.advantage_S, spelled.advantage_S, atol=1e-12)
    scaled = assign("gigpo", units, scale="std", gamma=0.9, step_weight=0.3)
    spelled = assign("grpo + 0.3*anchor(gamma=0.9, scale='std')", units)
    np.testing.assert_allclose(scaled.advantage_S, spelled.advantage_S, atol=1e-12)


@pytest.mark.parametrize("scale", ["none", "std"])
def test_without_the_step_part_it_is_grpo(scale):
    units = random_units(7, forks=False)
    got = assign("gigpo", units, step_weight=0.0, scale=scale).advantage_S
    assert got.tolist() == assign("grpo", units, scale=scale).advantage_S.tolist()


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_its_mean_on_the_whole_tree(weight):
    # step part: the true advantage everywhere. Episode part: the true advantage at the root.
    units, moves = tree_units()
    credit = assign("gigpo", units, gamma=1.0, step_weight=weight)
    step = average(credit.parts["step"], moves)
    assert step == pytest.approx({m: weight * a for m, a in advantages(1.0).items()}, abs=1e-12)
    got = average(credit.advantage_S, moves)
    for action in "LR":
        assert got["root", action] == pytest.approx((1 + weight) * (q("root", action, 1.0) - value("root", 1.0)))


def test_what_it_refuses():
    units = random_units(1, forks=False)
    with pytest.raises(ConfigError, match="gigpo: scale is 'batch'; give 'none' or 'std'"):
        assign("gigpo", units, scale="batch")
    with pytest.raises(ConfigError, match="gigpo: votes is 'step'; give 'trajectory' or 'row'"):
        assign("gigpo", units, votes="step")
    with pytest.raises(ConfigError, match="gigpo: group_of_one is 'nan'; give 'zero' or 'raw'"):
        assign("gigpo", units, group_of_one="nan")
    with pytest.raises(DataError, match="gigpo credits steps, the units are episodes; cut the batch with by_step or"):
        assign("gigpo", by_episode(units.batch))
