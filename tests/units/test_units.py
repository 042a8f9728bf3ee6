"""What `Units` refuses, and what it derives."""

import dataclasses

import numpy as np
import pytest

from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.units import COLUMNS, by_episode, by_step, by_token, cut
from tests.make import random_units, traj, units_of


def units():
    return units_of([0, 0], [2, 1], [("A", 0), ("B", 1), ("A", 0)])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"reward_S": np.zeros(2)}, "units.reward_S has 2 entries, expected 3; one per S"),
        ({"outcome_N": np.zeros(3)}, "units.outcome_N has 3 entries, expected 2; one per N"),
        ({"unit_of_T": np.full(4, -1)}, "units.unit_of_T has 4 entries, expected 9; one per T"),
        ({"reward_S": np.array([0, np.nan, 0])}, "units.reward_S is nan at 1; give finite numbers"),
        ({"value_S": np.array([0, 0, np.inf])}, "units.value_S is inf at 2; give finite numbers"),
        ({"traj_of_S": np.array([1, 0, 0])}, "units.traj_of_S must be sorted and point at trajectories"),
        ({"traj_of_S": np.array([0, 0, 2])}, "units.traj_of_S must be sorted and point at trajectories"),
        ({"unit_of_T": np.array([-1, -1, 0, -1, -1, 3, -1, -1, 2])}, "must lie between -1 and 2"),
        ({"unit_of_T": np.array([-1, -1, -2, -1, -1, 1, -1, -1, 2])}, "must lie between -1 and 2"),
        (
            {"unit_of_T": np.array([0, -1, 0, -1, -1, 1, -1, -1, 2])},
            "gives token 0 to unit 0, but the policy did not sample it; give -1",
        ),
        (
            {"unit_of_T": np.array([-1, -1, 2, -1, -1, 1, -1, -1, 2])},
            "gives token 2 to unit 2 of another trajectory; cut each apart",
        ),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changes, sentence):
    with pytest.raises(DataError, match=sentence):
        dataclasses.replace(units(), **changes)


def test_a_cut_of_your_own():
    # everything that one trajectory sampled, as one unit; a name that we do not know
    batch = units().batch
    mine = cut(batch, "mine", np.where(batch.sampled_T, batch.traj_of_T, -1), np.array([0, 2]))
    assert mine.level == "mine"
    assert mine.reward_S.tolist() == by_episode(batch).reward_S.tolist()


def test_arrays_are_read_only():
    for name in ("reward_S", "unit_of_T", "valid_N", "state_S"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(units(), name)[0] = 0


@pytest.mark.parametrize("column", COLUMNS)
def test_a_missing_column_is_named_with_where_it_comes_from(column):
    bare = by_step(Batch.from_trajectories([Trajectory([Step(ids=[1])])]))
    bare = dataclasses.replace(bare, state_S=None)
    with pytest.raises(DataError) as problem:
        bare.require("mine", column)
    assert str(problem.value) == f"mine reads {column}, which the units (cut by step) lack; {COLUMNS[column]}"


def test_present_columns_are_silent_and_unknown_ones_are_not():
    full = random_units(1)
    full.require("mine", *(column for column in COLUMNS if column.endswith("_S")))
    with pytest.raises(DataError, match="mine: no unit column is named 'rewards_S'; there are reward_S, "):
        full.require("mine", "rewards_S")


def test_derived_columns():
    u = units()
    assert u.group_of_S.tolist() == [0, 0, 0]
    assert u.valid_S.tolist() == [True, True, True]
    assert u.last_S.tolist() == [False, True, True]
    assert len(u) == 3
    assert repr(u) == "Units(3 steps of 2 trajectories in 1 groups)"


def test_without_units_everything_is_empty():
    silent = Batch.from_trajectories([Trajectory([Step(prompt_ids=[1], ids=[], reward=1.0)])])
    u = by_token(silent)
    assert (len(u), u.last_S.tolist(), u.group_of_S.tolist(), u.is_chain) == (0, [], [], True)


def test_valid_needs_a_score_tokens_and_whole_infrastructure():
    batch = Batch.from_trajectories(
        [
            traj(("A", 1)),
            traj(("A", None)),
            traj(("A", 1, 0)),
            Trajectory([Step(ids=[1], reward=1.0), Step(ids=[2], reward=1.0, failed=True)]),
            Trajectory([Step(ids=[1])], outcome=0.0),
        ]
    )
    for u in (by_step(batch), by_token(batch), by_episode(batch)):
        assert u.valid_N.tolist() == [True, False, False, False, True]
        assert u.outcome_N.tolist() == [1, 0, 0, 0, 0]


def test_other_rewards_on_the_same_units():
    u = units_of([0, 0, 0], [2, 1, 1], [("A", 0), ("B", 1), ("A", 0), ("A", None)])
    moved = u.with_reward([1, 2, 3, 4])
    assert moved.reward_S.tolist() == [1, 2, 3, 4]
    assert moved.outcome_N.tolist() == [3, 3, 0]  # the last one is unscored and stays outside
    assert u.reward_S.tolist() == [0, 1, 0, 0]
    with pytest.raises(DataError, match="with_reward: 2 rewards for 4 steps; give one for each"):
        u.with_reward([1, 2])


def test_rollouts_in_which_nothing_was_said_lack_no_agents():
    silent = Trajectory([Step(observation="your turn", action="", agent="planner")], outcome=1.0)
    units = by_token(Batch.from_trajectories([silent]))
    assert len(units) == 0
    units.require("mine", "agent_S")
