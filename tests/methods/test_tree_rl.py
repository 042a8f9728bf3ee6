from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.units import by_step, by_token, by_tree, leaves, prefix_tree
from tests.grown import grown, letters, random_words
from tests.make import random_units
from tests.methods.test_tempo import whole_tree
from tests.plain import spread
from tests.tree import advantages

WORDS = ["Ae/X", "Ae/Y", "Bf/Z"]  # a1 → b1 | b2, a2 → c1; leaves 1 0 0, against the others 1 -.5 -.5


def test_worked_example():
    # V(s1) = 1/4, V(s2) = -1/2, V(root) = 0; local + global: a1 .5, b1 1.75, b2 -1.25, a2 -1, c1 -.5
    units = by_step(grown(WORDS, [1, 0, 0]))
    credit = assign("tree_rl", units)
    np.testing.assert_allclose(credit.advantage_S, [0.5, 1.75, 0.5, -1.25, -1.0, -0.5], atol=1e-12)
    np.testing.assert_allclose(credit.parts["local"], [0.25, 0.75, 0.25, -0.75, -0.5, 0], atol=1e-12)
    rooted = assign("tree_rl", units, weighting="sqrt").advantage_S
    np.testing.assert_allclose(rooted, [0.353553, 1.823223, 0.353553, -1.176777, -1.0, -0.5], atol=1e-6)
    assert assign("tree_rl", units, inherit=True).advantage_S[-1] == pytest.approx(-1.0)
    assert assign("tree_rl", units, global_weight=0.0).advantage_S.tolist() == credit.parts["local"].tolist()


def test_the_same_tree_in_one_trajectory():
    steps = [
        Step(prompt_ids=[0], ids=[1], reward=0.0),
        Step(prompt_ids=[2], ids=[3], reward=1.0, parent=0),
        Step(prompt_ids=[2], ids=[4], reward=0.0, parent=0),
    ]
    other = [Step(prompt_ids=[0], ids=[5], reward=0.0), Step(prompt_ids=[6], ids=[7], reward=0.0)]
    batch = Batch.from_trajectories([Trajectory(steps, group="g"), Trajectory(other, group="g")])
    for cut in (by_step, by_tree):
        units = cut(batch)
        got = assign("tree_rl", units).advantage_S
        want = [0.5, 1.75, -1.25, -1.0, -0.5] if cut is by_step else [0.5, 1.75, -1.25, -1.0]
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_a_batch_that_begins_with_a_sampled_token():
    # leaves 1 and 0, against the other 1 and -1; two nodes of one and two tokens, mean -1/3
    rollouts = [Trajectory([Step(ids=ids)], outcome=o, group="g") for ids, o in (([1], 1.0), ([2, 3], 0.0))]
    units = by_step(Batch.from_trajectories(rollouts))
    assert assign("tree_rl", units).advantage_S.tolist() == [2.0, -2.0]
    np.testing.assert_allclose(assign("tree_rl", units, centred=True).parts["global"], [4 / 3, -2 / 3], atol=1e-12)


@pytest.mark.parametrize(("weighting", "power"), [("mean", 1.0), ("sqrt", 1.5)])
def test_a_fork_behind_a_fork(weighting, power):
    # root -> y (0) | x, x -> x1 (1) | x2 (0); another trajectory (0). Against the others: 1 for x1, -1/3 for the rest
    steps = [
        Step(prompt_ids=[0], ids=[1], reward=0.0),
        Step(prompt_ids=[2], ids=[3], reward=0.0, parent=0),
        Step(prompt_ids=[2], ids=[4], reward=0.0, parent=0),
        Step(prompt_ids=[5], ids=[6], reward=1.0, parent=2),
        Step(prompt_ids=[5], ids=[7], reward=0.0, parent=2),
    ]
    other = [Step(prompt_ids=[0], ids=[9], reward=0.0)]
    units = by_step(Batch.from_trajectories([Trajectory(steps, group="g"), Trajectory(other, group="g")]))
    root, x = (1 - 2 / 3) / 3**power, (1 - 1 / 3) / 2**power
    value, before = np.array([root, -1 / 3, x, 1, -1 / 3, -1 / 3]), np.array([0, root, root, x, x, 0])
    credit = assign("tree_rl", units, weighting=weighting)
    np.testing.assert_allclose(credit.parts["local"], value - before, atol=1e-12)
    np.testing.assert_allclose(credit.parts["global"], value, atol=1e-12)


def test_the_mean_over_nodes_counts_each_node_once():
    # nodes: AB (2 tokens, V 1/4), X (1 token, 1), Y (1, -1/2), Z (1, -1/2): mean .5/5
    units = by_tree(grown(["ABX", "ABY", "Z"], [1, 0, 0]))
    plain = assign("tree_rl", units)
    centred = assign("tree_rl", units, centred=True)
    np.testing.assert_allclose(plain.advantage_S - centred.advantage_S, 0.1, atol=1e-12)
    np.testing.assert_allclose(centred.parts["local"], plain.parts["local"])


def test_an_observation_that_parts_is_nobodys():
    credit = assign("tree_rl", by_step(grown(["AeB", "AfB"], [1, 0])))
    assert credit.parts["local"].tolist() == [0, 0, 0, 0]
    assert credit.parts["global"].tolist() == [0, 1, 0, -1]


def slow_tree_rl(words, outcomes, group, units, weight, weighting, centred, inherit):
    """V of every prefix from all words that start with it."""
    x = []
    for i in range(len(words)):
        others = [outcomes[j] for j in range(len(words)) if group[j] == group[i] and j != i]
        everyone = [*others, outcomes[i]]
        x.append(outcomes[i] - sum(others) / len(others) if others and spread(everyone, 0) else 0.0)
    power = 1.0 if weighting == "mean" else 1.5
    rows = [letters(word) for word in words]

    def v(i, t):
        below = [x[j] for j in range(len(words)) if group[j] == group[i] and rows[j][:t] == rows[i][:t]]
        return sum(below) / len(below) ** power if t else 0.0

    shift = {}
    for g in set(group):
        nodes = {}
        for i in range(len(words)):
            for t, sign in enumerate(rows[i], start=1):
                if group[i] == g and sign.isupper():
                    nodes["".join(rows[i][:t])] = v(i, t)
        shift[g] = sum(nodes.values()) / len(nodes)
    batch, out, after_of = units.batch, [], []
    for s in range(len(units)):
        i = int(units.traj_of_S[s])
        start = int(np.flatnonzero(batch.sampled_T & (batch.traj_of_T == i))[0])
        tokens = np.flatnonzero(units.unit_of_T == s) - start
        if not len(tokens):  # nothing sampled, nothing changed
            after_of.append(after_of[units.parent_S[s]] if units.parent_S[s] >= 0 else 0.0)
            before, after = after_of[-1], after_of[-1]
        else:
            before, after = v(i, int(tokens[0])), v(i, int(tokens[-1]) + 1)
            after_of.append(after)
        local, whole = after - before, weight * (after - (shift[group[i]] if centred else 0.0))
        if inherit and local == 0.0 and units.parent_S[s] >= 0:
            local, whole = out[units.parent_S[s]]
        out.append((local, whole))
    return out


MODES = list(product([1.0, 0.5], ["mean", "sqrt"], [False, True], [False, True]))


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    words, outcomes, group = random_words(seed)
    batch = grown(words, outcomes, group)
    for cut in (by_tree, by_step, by_token):
        units = cut(batch)
        for mode in MODES[seed % 8 :: 8]:
            params = dict(zip(("global_weight", "weighting", "centred", "inherit"), mode, strict=True))
            credit = assign("tree_rl", units, **params)
            want = np.array(slow_tree_rl(words, outcomes, group, units, *mode))
            np.testing.assert_allclose(credit.parts["local"], want[:, 0], atol=1e-9, err_msg=str((words, params)))
            np.testing.assert_allclose(credit.parts["global"], want[:, 1], atol=1e-9, err_msg=str((words, params)))


@pytest.mark.parametrize("seed", range(10))
def test_its_local_part_is_the_change_in_tempo(seed):
    # leaves against the others are n / (n - 1) times leaves against all
    words, outcomes, group = random_words(seed)
    units = by_token(grown(words, outcomes, group))
    size = np.bincount(units.group_of_N)[units.group_of_S]
    tempo = assign("tempo", units, scale="none").parts["prefix"]
    local = assign("tree_rl", units).parts["local"]
    np.testing.assert_allclose(local, tempo * size / np.maximum(size - 1, 1), atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_trajectories_that_fork_equal_a_walk_over_their_leaves(seed):
    # nothing is shared between trajectories here, so V is the mean over the leaves below, inside the trajectory
    units = random_units(seed, unscored=False)
    credit = assign("tree_rl", units)
    leaf = leaves(units)
    known = [k for k in range(len(leaf.unit_L)) if leaf.known_L[k]]
    group = units.group_of_N[leaf.traj_of_L]
    x = {}
    for k in known:
        others = [leaf.return_L[m] for m in known if group[m] == group[k] and m != k]
        every = [*others, leaf.return_L[k]]
        x[k] = leaf.return_L[k] - sum(others) / len(others) if others and spread(every, 0) else 0.0
    below = [[] for _ in range(len(units))]
    for k in known:
        s = int(leaf.unit_L[k])
        while s >= 0:
            below[s].append(x[k])
            s = int(units.parent_S[s])
    tree = prefix_tree(units.batch, units.valid_N)
    alone = np.bincount(tree.traj_of_R, weights=tree.members_R > 1, minlength=len(units.group_of_N)) == 0
    checked = 0
    for s in range(len(units)):
        if below[s] and units.tokens_S[s] and alone[units.traj_of_S[s]]:
            assert credit.parts["global"][s] == pytest.approx(sum(below[s]) / len(below[s]), abs=1e-9)
            checked += 1
        assert credit.known_S[s] == bool(below[s])
    assert checked


def test_its_local_part_is_the_true_advantage_of_the_whole_tree():
    # but for the factor n / (n - 1) of "against the others"
    units, moves = whole_tree()
    factor = len(units.group_of_N) / (len(units.group_of_N) - 1)
    want = advantages(1.0)
    local = assign("tree_rl", units).parts["local"]
    np.testing.assert_allclose(local, [want[move] * factor for move in moves], atol=1e-12)


def test_what_it_refuses():
    with pytest.raises(ConfigError, match="tree_rl: weighting is 'max'; give 'mean' or 'sqrt'"):
        assign("tree_rl", by_tree(grown(["A"], [1])), weighting="max")
