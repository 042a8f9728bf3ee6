import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.methods.branching import branches
from apportion.units import by_step, by_token, by_tree
from tests.branches import batch, edges, forked, leaf_by_leaf, random_root, value
from tests.make import random_units

PAPER = [(1, [(1, 1.0), (2, 0.0)]), (2, [(1, 0.0)])]


@pytest.mark.parametrize("flat", [False, True])
def test_worked_example(flat):
    # V(s1) = .5, V(s2) = 0, V(root) = .25; a1 +.25, a2 -.25, b1 +.5, b2 -.5, c1 has no alternative
    units = by_step(batch(PAPER, flat=flat))
    credit = assign("carl", units)
    want = [0.25, 0.5, 0.25, -0.5, -0.25, 0.0] if flat else [0.25, 0.5, -0.5, -0.25, 0.0]
    np.testing.assert_allclose(credit.advantage_S, want, atol=1e-12)
    assert credit.train_S.tolist() == [True] * (len(want) - 1) + [False]
    assert credit.weight_S[-1] == 0
    assert credit.notes["units_without_alternative"] == 1


def test_worked_example_of_the_biased_form():
    # leaves below count: V(root) = 1/3
    credit = assign("carl(value='leaves')", by_step(batch(PAPER)))
    np.testing.assert_allclose(credit.advantage_S[[0, 3]], [1 / 6, -1 / 3])


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("form", ["children", "leaves"])
def test_equals_the_slow_reference(seed, form):
    roots = [random_root(seed), random_root(seed + 1000, depth=2)]
    for equal in ("merged", "apart"):
        credit = assign("carl", by_step(batch(*roots)), value=form, equal=equal)
        s = 0
        for root in roots:
            for siblings, after in edges(root):
                mine, node = value(after, leaves=form == "leaves"), value(siblings, leaves=form == "leaves")
                known = [v for _, x in siblings if (v := value(x)) is not None]
                assert bool(credit.known_S[s]) == (mine is not None)
                if mine is not None:
                    assert credit.advantage_S[s] == pytest.approx(mine - node, abs=1e-12)
                    assert bool(credit.train_S[s]) == (len(known) > 1)
                s += 1
        assert s == len(credit.units)


@pytest.mark.parametrize("seed", range(30))
def test_a_tree_logged_leaf_by_leaf_is_the_same_tree(seed):
    # by tokens, by steps and by edges alike: each rollout's choices have the credit of the tree's
    root = random_root(seed)
    for node, _ in edges(root):
        for k, (choice, after) in enumerate(node):
            node[k] = (choice, 0.25 if after is None else after)
    whole = assign("carl", by_step(batch(root)))
    by_way = {}
    for s, step in enumerate(whole.units.batch.trajectories[0].steps):
        parent = s - 1 if step.parent is None else step.parent
        by_way[s] = (*by_way.get(parent, ()), int(step.ids[0]))
    want = {way: (whole.advantage_S[s], whole.train_S[s]) for s, way in by_way.items()}
    flat = batch(root, flat=True)
    for cut in (by_step, by_token):
        credit = assign("carl", cut(flat))
        for s in range(len(credit.units)):
            n = int(credit.units.traj_of_S[s])
            depth = s - int(np.searchsorted(credit.units.traj_of_S, n))
            way = tuple(int(step.ids[0]) for step in flat.trajectories[n].steps[: depth + 1])
            assert credit.advantage_S[s] == pytest.approx(want[way][0], abs=1e-12)
            assert credit.train_S[s] == want[way][1]
    # an edge of by_tree ends where somebody parts, so its value changes as that of its first choice does
    tree = assign("carl", by_tree(flat))
    np.testing.assert_allclose(
        np.bincount(tree.units.traj_of_S, tree.advantage_S),
        np.bincount(by_step(flat).traj_of_S, assign("carl", by_step(flat)).advantage_S),
        atol=1e-12,
    )


def test_a_fork_that_repeats_its_context_starts_in_the_same_state():
    # the second rollout has the first choice of the first one; together they know three ways on from there
    first = forked([(1, [(1, 1.0), (2, 0.0)])])
    second = leaf_by_leaf([(1, [(3, 0.5)])])
    units = by_step(Batch.from_trajectories([first, *second]))
    credit = assign("carl", units)
    np.testing.assert_allclose(credit.advantage_S, [0, 0.5, -0.5, 0, 0], atol=1e-12)
    assert credit.train_S.tolist() == [False, True, True, False, True]
    apart = assign("carl(equal='apart')", units)
    assert apart.train_S.tolist() == [True, True, True, True, False]


def test_a_choice_with_two_observations_is_one_child():
    def rollout(choice, seen, outcome):
        return Trajectory(
            [Step(prompt_ids=[0], ids=[choice]), Step(prompt_ids=[seen], ids=[9])], outcome=outcome, group="g"
        )

    # behind choice 1 stand two nodes of values 1 and 0; V(root) = (.5 + 1) / 2
    credit = assign("carl", by_step(Batch.from_trajectories([rollout(1, 5, 1), rollout(1, 6, 0), rollout(2, 5, 1)])))
    np.testing.assert_allclose(credit.advantage_S, [-0.25, 0, -0.25, 0, 0.25, 0], atol=1e-12)
    assert credit.train_S.tolist() == [True, False, True, False, True, False]


def test_constant_outcomes_give_exact_zeros_that_are_trained():
    root = [(1, [(1, 0.7), (2, 0.7), (3, 0.7)]), (2, 0.7), (3, [(1, 0.7)])]
    credit = assign("carl", by_step(batch(root)))
    assert not credit.advantage_S.any()
    assert int(credit.weight_S.sum()) == 6


@pytest.mark.parametrize("seed", range(20))
def test_without_shared_prefixes_it_is_each_rollout_against_its_group_at_the_first_choice(seed):
    units = random_units(seed, forks=False)
    credit, tree = assign("carl", units), branches(units)
    first = np.unique(units.traj_of_S, return_index=True)[1]
    for s in first[units.valid_N[units.traj_of_S[first]] & (units.tokens_S[first] > 0)].tolist():
        if tree.siblings_S[s] < 2 or (tree.edge_S == tree.edge_S[s]).sum() > 1:
            continue
        group = np.flatnonzero(tree.node_S == tree.node_S[s])
        edge = {int(tree.edge_S[x]): tree.after_S[x] for x in group if np.isfinite(tree.after_S[x])}
        mean = np.mean(list(edge.values()))
        assert credit.advantage_S[s] == pytest.approx(units.outcome_N[units.traj_of_S[s]] - mean, abs=1e-9)


def test_exact_on_a_task_that_is_listed_whole():
    # a uniform policy over two choices, three deep: every path once; V(node) is the exact value, so A is exact
    rng = np.random.default_rng(5)

    def node(left):
        return [(c, node(left - 1) if left else float(rng.normal())) for c in (1, 2)]

    root = node(2)
    credit = assign("carl", by_step(batch(root, flat=True)))
    units = credit.units

    def exact(after):
        return sum(exact(x) for _, x in after) / 2 if isinstance(after, list) else after

    for s in range(len(units)):
        n = int(units.traj_of_S[s])
        depth = s - int(np.searchsorted(units.traj_of_S, n))
        at = root
        for d in range(depth):
            at = dict(at)[int(units.batch.trajectories[n].steps[d].ids[0])]
        after = dict(at)[int(units.batch.trajectories[n].steps[depth].ids[0])]
        assert credit.advantage_S[s] == pytest.approx(exact(after) - exact(at), abs=1e-12)


def test_a_copy_that_takes_no_part_does_not_stand_for_the_others():
    # the unscored rollout comes first and has the choices of the second; siblings are counted all the same
    mute = Trajectory([Step(prompt_ids=[0], ids=[1])], group="g")
    units = by_step(Batch.from_trajectories([mute, *leaf_by_leaf([(1, 1.0), (2, 0.0)])]))
    tree = branches(units)
    assert tree.counted_S.tolist() == [False, True, True]
    assert tree.siblings_S.tolist() == [0, 2, 2]
    loo = assign("spo_tree(equal='merged', baseline='loo')", units)
    np.testing.assert_allclose(loo.advantage_S, [0, 1, -1])


def test_what_it_refuses():
    units = by_step(batch(PAPER))
    with pytest.raises(ConfigError, match="carl: equal is 'same'; give one of 'merged', 'apart'"):
        assign("carl", units, equal="same")
    with pytest.raises(ConfigError, match="carl: value is 'max'"):
        assign("carl", units, value="max")
