"""The unit before: in the same step, else that of the parent step; forks, roots, and agents that take turns."""

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.units import CUTS, by_agent, by_episode, by_segment, by_step, by_token, by_turn
from tests.make import random_batch


def tree():
    """0 ── 1 ── 2, and 0 ── 3 ── 4; 5 is a second root."""
    parents = [None, None, None, 0, None, -1]
    steps = [Step(prompt_ids=[9], ids=[s, s], parent=p, reward=1.0) for s, p in enumerate(parents)]
    return Batch.from_trajectories([Trajectory([Step(ids=[7])]), Trajectory(steps)])


def test_of_steps():
    units = by_step(tree())
    assert units.parent_S.tolist() == [-1, -1, 1, 2, 1, 4, -1]
    assert not units.is_chain
    assert units.first_fork() == 4


def test_of_tokens_and_segments():
    assert by_token(tree()).parent_S.tolist() == [-1, -1, 1, 2, 3, 4, 5, 2, 7, 8, 9, -1, 11]
    assert by_segment(tree(), "fixed", count=1).parent_S.tolist() == [-1, -1, 1, 2, 1, 4, -1]


def test_of_turns_and_episodes():
    assert by_turn(tree()).parent_S.tolist() == [-1, -1, 1, 2, 1, 4, -1]
    assert by_episode(tree()).parent_S.tolist() == [-1, -1]
    assert by_episode(tree()).is_chain


def test_over_an_empty_step():
    # the fork leaves an empty step: its parent is the last token before that
    steps = [Step(ids=[1, 2]), Step(ids=[]), Step(ids=[3]), Step(ids=[4], parent=1)]
    units = by_token(Batch.from_trajectories([Trajectory(steps)]))
    assert units.parent_S.tolist() == [-1, 0, 1, 1]
    # nothing before an empty start
    steps = [Step(ids=[]), Step(ids=[1, 2])]
    assert by_token(Batch.from_trajectories([Trajectory(steps)])).parent_S.tolist() == [-1, 0]


@pytest.mark.parametrize("level", sorted(set(CUTS) - {"agent"}))
@pytest.mark.parametrize("seed", range(20))
def test_without_forks_every_cut_is_a_chain(seed, level):
    batch = random_batch(seed, forks=False)
    units = CUTS[level](batch, **({"by": "fixed", "count": 2} if level == "segment" else {}))
    assert units.is_chain
    first = np.flatnonzero(np.diff(units.traj_of_S, prepend=-1))
    assert (units.parent_S[first] == -1).all()


@pytest.mark.parametrize("level", CUTS)
@pytest.mark.parametrize("seed", range(20))
def test_parents_come_earlier_in_the_same_trajectory(seed, level):
    units = CUTS[level](random_batch(seed), **({"by": "fixed", "count": 2} if level == "segment" else {}))
    for s, parent in enumerate(units.parent_S.tolist()):
        assert parent < s
        assert parent == -1 or units.traj_of_S[parent] == units.traj_of_S[s]


def agents(*names):
    steps = [Step(prompt_ids=[1], ids=[2], agent=name, reward=1.0) for name in names]
    return by_agent(Batch.from_trajectories([Trajectory(steps)]))


def test_agents_one_after_the_other_are_a_chain():
    units = agents("p", "p", "c", "r")
    assert units.parent_S.tolist() == [-1, 0, 1]
    assert units.is_chain
    assert assign("reinforce", units).advantage_S.tolist() == [4, 2, 1]


def test_agents_that_take_turns_are_not():
    units = agents("p", "c", "p")
    assert units.parent_S.tolist() == [-1, 0]
    assert units.first_fork() == -1
    assert units.first_interrupted() == 0
    assert not units.is_chain
    with pytest.raises(
        DataError, match=r"reinforce runs along time, and unit 0 \(trajectory 0\) goes on after .* by_step"
    ):
        assign("reinforce", units)
    assert assign("grpo", units).advantage_S.tolist() == [0, 0]
    # the third agent answers the first: still no fork
    assert agents("p", "c", "p", "r").parent_S.tolist() == [-1, 0, 0]


def test_methods_along_time_refuse_forks():
    with pytest.raises(
        DataError, match=r"gigpo runs along time, and unit 4 \(trajectory 1\) forks; split the branches"
    ):
        assign("gigpo", by_step(tree()))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", range(10))
def test_the_first_fork_is_found_wherever_pieces_end(monkeypatch, seed, size):
    monkeypatch.setattr("apportion.units.units.BLOCK", size)
    for units in (by_step(random_batch(seed)), by_token(random_batch(seed)), by_step(tree())):
        first = np.diff(units.traj_of_S, prepend=-1) > 0
        forks = np.flatnonzero(units.parent_S != np.where(first, -1, np.arange(len(units)) - 1))
        assert units.first_fork() == (int(forks[0]) if len(forks) else -1)
