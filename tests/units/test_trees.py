"""The cut by prefix tree, and the leaves of rollouts that fork."""

import numpy as np
import pytest

from apportion.data import Batch, Step, Trajectory
from apportion.units import by_step, by_token, by_tree, by_turn, leaves, prefix_tree, sum_below
from tests.grown import grown, letters, random_words
from tests.make import random_batch


def pieces(batch):
    """The units of each trajectory as words of their sampled tokens."""
    units = by_tree(batch)
    out = [[] for _ in range(len(batch))]
    for s in range(len(units)):
        word = "".join(chr(i) for i in batch.ids_T[units.unit_of_T == s])
        out[units.traj_of_S[s]].append(word)
    return out


def test_units_end_where_a_sibling_parts():
    assert pieces(grown(["ABCE", "ABDE", "AFE", "AFGE"], [1, 0, 0, 0])) == [
        ["A", "B", "CE"],
        ["A", "B", "DE"],
        ["A", "F", "E"],
        ["A", "F", "GE"],
    ]
    assert pieces(grown(["AB", "AB"], [1, 0])) == [["AB"], ["AB"]]
    assert pieces(grown(["AB", "ABC"], [1, 0])) == [["AB"], ["AB", "C"]]
    assert pieces(grown(["AB", "AC"], [1, 0], group="gh")) == [["AB"], ["AC"]]


def test_an_observation_parts_two_trajectories_too():
    assert pieces(grown(["AeBC", "AfBC", "AeBD"], [1, 0, 0])) == [["A", "B", "C"], ["A", "BC"], ["A", "B", "D"]]
    units = by_tree(grown(["AeBC", "AeBD"], [1, 0]))  # a unit may span steps
    assert units.tokens_S.tolist() == [2, 1, 2, 1]
    assert units.parent_S.tolist() == [-1, 0, -1, 2]
    assert units.step_of_S.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(20))
def test_runs_lie_end_to_end_and_hold_their_tokens(seed):
    words, outcomes, group = random_words(seed)
    batch = grown(words, outcomes, group)
    tree = prefix_tree(batch, batch.valid_N)
    covered = []
    for n in range(len(batch)):
        spoken = np.flatnonzero(batch.sampled_T & (batch.traj_of_T == n))
        runs = np.flatnonzero(tree.traj_of_R == n)
        edges = [*tree.start_R[runs].tolist(), int(spoken[-1]) + 1]
        assert edges[0] == tree.start_N[n] == spoken[0]
        assert tree.stop_R[runs].tolist() == edges[1:]
        for run in runs.tolist():
            covered += [(token, run) for token in range(int(tree.start_R[run]), int(tree.stop_R[run]))]
    token, run = np.array(covered).T
    assert tree.run_of(token).tolist() == run.tolist()


def test_words_stand_in_for_tokens_in_logs_of_text():
    rollouts = [Trajectory([Step(observation="go", action=text)], outcome=1.0, group="g") for text in ("a b c", "a d")]
    assert by_tree(Batch.from_trajectories(rollouts)).tokens_S.tolist() == [1, 2, 1, 1]


def test_what_stands_before_the_first_sampled_token_does_not_part():
    batch = Batch.from_trajectories(
        Trajectory([Step(prompt_ids=[prompt], ids=[1, last])], outcome=1.0, group="g")
        for prompt, last in ((5, 2), (6, 3))
    )
    assert by_tree(batch).tokens_S.tolist() == [1, 1, 1, 1]


def test_members_that_do_not_count_make_no_branches():
    words = ["ABCD", "ABXY", "ABCZ"]
    assert pieces(grown(words, [1, None, 0])) == [["ABC", "D"], ["AB", "XY"], ["ABC", "Z"]]


@pytest.mark.parametrize("seed", range(20))
def test_units_equal_the_sets_of_sharers(seed):
    words, outcomes, group = random_words(seed)
    batch = grown(words, outcomes, group)
    want = []
    for i, word in enumerate(words):
        mine, before, row = letters(word), None, []
        for t, sign in enumerate(mine):
            now = [j for j in range(len(words)) if group[j] == group[i] and letters(words[j])[: t + 1] == mine[: t + 1]]
            if now != before:
                row.append("")
            before = now
            if sign.isupper():
                row[-1] += sign
        want.append([piece for piece in row if piece])
    assert pieces(batch) == want


@pytest.mark.parametrize("seed", range(20))
def test_every_sampled_token_is_in_one_unit(seed):
    for ids in (True, False):
        units = by_tree(random_batch(seed, ids=ids))
        assert ((units.unit_of_T >= 0) == units.batch.sampled_T).all()
        assert units.tokens_S.min(initial=1) >= 1
        assert units.level == "tree"
        assert units.state_S is None
        steps = by_step(units.batch)
        np.testing.assert_allclose(
            np.bincount(units.traj_of_S, weights=units.reward_S, minlength=len(units.batch))[units.valid_N],
            np.bincount(steps.traj_of_S, weights=steps.reward_S, minlength=len(units.batch))[units.valid_N],
            atol=1e-12,
        )


def forked(*rewards, parents=(None, None, 0, 2), group="g", outcome=None):
    """root 0 - 1 (leaf); 0 - 2 - 3 (leaf)"""
    return Trajectory(
        [
            Step(prompt_ids=[0], ids=[10 + s, 20 + s], reward=reward, parent=parent)
            for s, (reward, parent) in enumerate(zip(rewards, parents, strict=True))
        ],
        group=group,
        outcome=outcome,
    )


def test_leaves_have_the_rewards_along_their_path():
    batch = Batch.from_trajectories([forked(0.5, 1.0, 0.0, 4.0), forked(1.0, None, 2.0, 0.0, parents=(None,) * 4)])
    leaf = leaves(by_step(batch))
    assert leaf.unit_L.tolist() == [1, 3, 7]
    assert leaf.return_L.tolist() == [1.5, 4.5, 3.0]
    assert leaf.known_L.tolist() == [True, True, True]


def test_the_outcome_of_a_trajectory_without_forks_is_its_return():
    batch = Batch.from_trajectories([forked(0.5, 0.5, 0.5, 0.5, parents=(None,) * 4, outcome=7.0)])
    assert leaves(by_step(batch)).return_L.tolist() == [7.0]


def test_an_outcome_counts_beside_a_trajectory_that_forks():
    lone = forked(0.5, 0.5, 0.5, 0.5, parents=(None,) * 4, outcome=7.0)
    leaf = leaves(by_step(Batch.from_trajectories([forked(0.5, 1.0, 0.0, 4.0), lone])))
    assert leaf.return_L.tolist() == [1.5, 4.5, 7.0]


def test_a_leaf_of_several_steps_is_scored_by_its_last():
    steps = [
        Step(prompt_ids=[0], ids=[1], turn=0),
        Step(prompt_ids=[2], ids=[3], turn=0, reward=1.0),
        Step(prompt_ids=[4], ids=[5], turn=1, parent=-1, reward=2.0),
    ]
    leaf = leaves(by_turn(Batch.from_trajectories([Trajectory(steps, group="g")])))
    assert leaf.known_L.tolist() == [True, True]
    assert leaf.return_L.tolist() == [1.0, 2.0]


def test_a_branch_that_nobody_scored_is_unknown():
    batch = Batch.from_trajectories([forked(0.5, None, 0.0, 4.0), forked(None, None, None, None, outcome=1.0)])
    leaf = leaves(by_step(batch))
    assert leaf.known_L.tolist() == [False, True, False, False]


@pytest.mark.parametrize("seed", range(20))
def test_sums_below_equal_a_walk_from_every_leaf(seed):
    units = by_step(random_batch(seed))
    leaf = leaves(units)
    x = np.random.default_rng(seed).normal(size=len(leaf.unit_L))
    total, count = sum_below(units, leaf, x)
    want, number = np.zeros(len(units)), np.zeros(len(units))
    for k, s in enumerate(leaf.unit_L.tolist()):
        assert s not in units.parent_S
        while s >= 0 and leaf.known_L[k]:
            want[s] += x[k]
            number[s] += 1
            s = int(units.parent_S[s])
    np.testing.assert_allclose(total, want, atol=1e-12)
    assert count.tolist() == number.tolist()


def test_behind_its_first_fork_a_trajectory_shares_nothing():
    batch = Batch.from_trajectories([forked(0.0, 1.0, 0.0, 1.0), forked(0.0, 1.0, 0.0, 1.0)])
    units = by_tree(batch)
    assert units.tokens_S.tolist() == [2] * 8  # every step of a trajectory that forks is a unit
    assert units.parent_S.tolist() == [-1, 0, 0, 2, -1, 4, 4, 6]
    tree = prefix_tree(batch, units.valid_N)
    assert tree.fork_N.tolist() == [3, 15]
    assert tree.members_R.tolist() == [2, 1, 2, 1]
    again = forked(0.0, 1.0, 0.0, 1.0, parents=(None, None, -1, 2))
    assert prefix_tree(Batch.from_trajectories([again]), np.array([True])).fork_N.tolist() == [1]


def test_by_tree_of_tokens_is_by_token_where_all_part_everywhere():
    batch = grown(["A", "AB", "ABC", "ABCD"], [0, 1, 2, 3])
    assert (by_tree(batch).unit_of_T == by_token(batch).unit_of_T).all()


def test_whose_ends_are_known():
    # a rollout that does not fork is known by its outcome, though nobody scored its last step; one that failed is not
    def rollout(failed, outcome):
        steps = [Step(prompt_ids=[0], ids=[1], reward=0.5), Step(prompt_ids=[0], ids=[2], failed=failed)]
        return Trajectory(steps, group="g", outcome=outcome)

    units = by_step(Batch.from_trajectories([rollout(False, 1.0), rollout(True, 1.0)]))
    assert units.valid_N.tolist() == [True, False]
    assert leaves(units).known_L.tolist() == [True, False]
