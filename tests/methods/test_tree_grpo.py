from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.units import by_step, by_tree, by_turn
from tests.grown import grown, letters, random_words
from tests.make import random_units
from tests.plain import plain, spread
from tests.tree import TREE, Fraction, q, value


def tree(*leaves, group="g", root=None):
    """One trajectory: a first step, and one branch of one step for each leaf's reward."""
    steps = [Step(prompt_ids=[0], ids=[1], reward=root)]
    steps += [Step(prompt_ids=[2], ids=[3 + k], reward=r, parent=0) for k, r in enumerate(leaves)]
    return Trajectory(steps, group=group)


def test_worked_example():
    # leaves 1 0 | 1 1: over all .5 -1.5 .5 .5 (mean 3/4, sample std 1/2); in the first tree ±.7071, the second is level
    units = by_step(Batch.from_trajectories([tree(1, 0), tree(1, 1)]))
    credit = assign("tree_grpo", units, epsilon=1e-6)
    np.testing.assert_allclose(
        credit.parts["group"][[1, 2, 4, 5]], [0.499999, -1.499997, 0.499999, 0.499999], atol=2e-6
    )
    np.testing.assert_allclose(credit.advantage_S[[1, 2, 4, 5]], [1.207105, -2.207103, 0.499999, 0.499999], atol=2e-6)
    # the first steps have the mean of their leaves
    np.testing.assert_allclose(credit.advantage_S[[0, 3]], [-0.5, 0.5], atol=2e-6)
    assert credit.notes["leaves"] == 4
    assert credit.notes["trees"] == 2


def test_the_same_tree_logged_leaf_by_leaf():
    batch = grown(["Ae/X", "Ae/Y", "Be/X", "Be/Y"], [1, 0, 1, 1])
    got = assign("tree_grpo", by_step(batch), tree="first_unit").advantage_S
    want = [0.5 + 0.5**0.5, -1.5 - 0.5**0.5, 0.5, 0.5]
    np.testing.assert_allclose(got, np.repeat(want, 2), atol=1e-12)
    apart = assign("tree_grpo", by_step(batch)).advantage_S  # every trajectory a tree of its own
    np.testing.assert_allclose(apart, np.repeat([0.5, -1.5, 0.5, 0.5], 2), atol=1e-12)


def test_a_branch_without_a_score_is_unknown_and_leaves_the_statistics():
    credit = assign("tree_grpo", by_step(Batch.from_trajectories([tree(1, None, 0), tree(1, 1)])))
    assert credit.known_S.tolist() == [True, True, False, True, True, True, True]
    assert credit.advantage_S[2] == 0
    whole = assign("tree_grpo", by_step(Batch.from_trajectories([tree(1, 0), tree(1, 1)]))).advantage_S
    np.testing.assert_allclose(credit.advantage_S[[0, 1, 3]], whole[:3])


def test_a_tree_that_nobody_scored_is_not_counted():
    notes = assign("tree_grpo", by_step(Batch.from_trajectories([tree(1, 0), tree(None, None)]))).notes
    assert (notes["trees"], notes["leaves"]) == (1, 2)


def test_a_leaf_alone_in_its_tree():
    # trees of two leaves (1, 0) and of one (3): mean 4/3; the released code keeps the lone 3 in the tree part
    units = by_step(Batch.from_trajectories([tree(1, 0), tree(3)]))
    credit = assign("tree_grpo", units, scale="none")
    assert credit.parts["tree"][[1, 2, 4]].tolist() == [0.5, -0.5, 0.0]
    raw = assign("tree_grpo", units, scale="none", group_of_one="raw")
    assert raw.parts["tree"].tolist() == [0.0, 0.5, -0.5, 3.0, 3.0]
    np.testing.assert_allclose(raw.parts["group"], credit.parts["group"])
    scaled = assign("tree_grpo", units, group_of_one="raw", epsilon=0.5)
    assert scaled.parts["tree"][4] == 2.0


def slow_tree_grpo(units, tree_of, scale, ddof, epsilon, group_of_one):
    """From the trajectories as given: walk to every leaf, compare, walk back."""
    leaves = []  # (trajectory, path of steps, return, known)
    rollouts = plain(units.batch)
    for n, (t, r) in enumerate(zip(units.batch.trajectories, rollouts, strict=True)):
        parent = [s - 1 if step.parent is None else step.parent for s, step in enumerate(t.steps)]
        ends = [s for s in range(len(t.steps)) if s not in parent]
        for s in ends:
            path, at = [], s
            while at >= 0:
                path.append(at)
                at = parent[at]
            lone = len(ends) == 1
            got = r.outcome if lone else sum(r.rewards[k] for k in path)
            leaves.append((n, path, got, r.valid and (lone or t.steps[s].reward is not None)))

    def place(k, same):
        xs = [leaf[2] for leaf in leaves if leaf[3] and same(leaf)]
        if len(xs) == 1 and group_of_one == "raw":
            return xs[0] / (1 + epsilon if scale == "std" else 1)
        if len(xs) < 2 or not spread(xs, 0):
            return 0.0
        d = leaves[k][2] - sum(xs) / len(xs)
        std = spread(xs, ddof)
        return d if scale == "none" else d / (std + epsilon) if std else 0.0

    total = [[0.0] * len(t.steps) for t in units.batch.trajectories]
    count = [[0] * len(t.steps) for t in units.batch.trajectories]
    for k, (n, path, _, known) in enumerate(leaves):
        if known:
            a = place(k, lambda leaf, n=n: rollouts[leaf[0]].group == rollouts[n].group)
            a += place(k, lambda leaf, n=n: tree_of[leaf[0]] == tree_of[n])
            for s in path:
                total[n][s] += a
                count[n][s] += 1
    flat = [
        (a / max(c, 1), c > 0)
        for row, number in zip(total, count, strict=True)
        for a, c in zip(row, number, strict=True)
    ]
    return [a for a, _ in flat], [known for _, known in flat]


MODES = list(product(["std", "none"], [0, 1], [0.0, 1e-3], ["zero", "raw"]))


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed)  # trajectories that fork among them
    for mode in MODES:
        params = dict(zip(("scale", "ddof", "epsilon", "group_of_one"), mode, strict=True))
        credit = assign("tree_grpo", units, **params)
        want, known = slow_tree_grpo(units, range(len(units.group_of_N)), *mode)
        np.testing.assert_allclose(credit.advantage_S, want, atol=1e-9)
        assert credit.known_S.tolist() == known


@pytest.mark.parametrize("seed", range(20))
def test_trees_by_the_first_unit_equal_the_slow_reference(seed):
    words, outcomes, group = random_words(seed)
    units = by_step(grown(words, outcomes, group))
    starts = []
    for i, word in enumerate(words):  # up to the first observation behind a sampled token
        mine = letters(word)
        end = next((t for t, sign in enumerate(mine) if sign.islower()), len(mine))
        starts.append((group[i], "".join(mine[:end])))
    got = assign("tree_grpo", units, tree="first_unit")
    want, _ = slow_tree_grpo(units, starts, "std", 1, 0.0, "zero")
    np.testing.assert_allclose(got.advantage_S, want, atol=1e-9)


@pytest.mark.parametrize("scale", ["std", "none"])
@pytest.mark.parametrize("seed", range(5))
def test_without_forks_it_is_grpo(seed, scale):
    units = random_units(seed, forks=False)
    for cut in (by_step, by_turn, by_tree):
        units = cut(units.batch)
        got = assign("tree_grpo", units, scale=scale).advantage_S
        np.testing.assert_allclose(got, assign("grpo", units, scale=scale).advantage_S, atol=1e-12)


def test_its_mean_on_the_whole_tree():
    # one trajectory that holds every path of the tree, each as often as its probability says: the group part of a step
    # is the mean return of the paths through it minus that of all paths, Q + rewards so far - V(root)
    steps, moves = [], []

    def grow(state, parent, times, so_far):
        for action, (p, reward, after) in TREE[state].items():
            share = times * p
            copies = int(share) if after is None else 1
            for _ in range(copies):
                steps.append(Step(prompt_ids=[0], ids=[1], reward=reward, parent=parent))
                moves.append((state, action, so_far))
                if after is not None:
                    grow(after, len(steps) - 1, share, so_far + reward)

    grow("root", -1, Fraction(12), 0.0)
    credit = assign("tree_grpo", by_step(Batch.from_trajectories([Trajectory(steps, group="g")])), scale="none")
    for part in ("group", "tree"):
        want = [so_far + q(state, action, 1.0) - value("root", 1.0) for state, action, so_far in moves]
        np.testing.assert_allclose(credit.parts[part], want, atol=1e-12)


def test_what_it_refuses():
    units = random_units(1)
    with pytest.raises(ConfigError, match="tree_grpo: scale is 'batch'; give 'std' or 'none'"):
        assign("tree_grpo", units, scale="batch")
    with pytest.raises(ConfigError, match="tree_grpo: group_of_one is 'x'; give one of 'zero', 'raw'"):
        assign("tree_grpo", units, group_of_one="x")
    with pytest.raises(ConfigError, match="tree_grpo: tree is 'step'; give 'trajectory' or 'first_unit'"):
        assign("tree_grpo", units, tree="step")
