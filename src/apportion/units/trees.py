"""Trees: the one that a group of ordinary samples forms by its common prefixes, and rollouts that fork.

A prefix is everything in order from the first sampled token on, tool answers and other observations included, so a
stochastic environment parts two trajectories as a sampled token does. What stands before the first sampled token is not
part of it: that the members of a group start alike is said by the group. Tokens are compared by id; in text-only logs
words stand in for them.

Two forms of tree meet here. Trajectories of one group share prefixes (`prefix_tree`); one trajectory may hold several
branches (`Step.parent`), each ending in a leaf (`leaves`). Behind its first fork a trajectory shares nothing with
others, so put branches that others share into trajectories of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.data import Batch
from apportion.numerics import BoolArray, FloatArray, IntArray, labels, seg_count, seg_sum
from apportion.numerics.prefix import Runs, prefix_runs
from apportion.units.cut import cut
from apportion.units.units import Units


@dataclass(frozen=True, slots=True, eq=False)
class PrefixTree:
    """The prefix trees of a batch's groups as runs of tokens, see `apportion.numerics.prefix.Runs`.

    Attributes:
        traj_of_R: trajectory of each run. start_R, stop_R: its tokens.
        node_R: edge of the tree that the run is a copy of; equal for all trajectories that share the run's prefixes.
        members_R: valid trajectories on that edge.
        start_N: first sampled token of each trajectory. fork_N: the token from which it shares nothing, its end where
            it does not fork.
    """

    traj_of_R: IntArray
    start_R: IntArray
    stop_R: IntArray
    node_R: IntArray
    members_R: IntArray
    start_N: IntArray
    fork_N: IntArray

    def run_of(self, token_X: IntArray) -> IntArray:
        """Run that holds each of the given tokens, all of them inside prefixes."""
        return np.searchsorted(self.start_R, token_X, side="right") - 1

    @property
    def runs(self) -> Runs:
        """The same as the arithmetic takes it."""
        return Runs(self.traj_of_R, self.start_R, self.node_R, self.members_R)


def prefix_tree(batch: Batch, valid_N: BoolArray, *, prompts: bool = False) -> PrefixTree:
    """The prefix tree of every group; only valid trajectories make branches, the others are laid along them.

    With ``prompts`` what stands before the first sampled token is part of the prefix too, and ``start_N`` is its first
    token: for groups whose members may have been asked differently.
    """
    n = len(batch)
    sampled = np.flatnonzero(batch.sampled_T)
    traj = batch.traj_of_T[sampled]
    start, stop = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    start[traj[::-1]] = sampled[::-1]
    stop[traj] = sampled + 1
    if prompts:
        start = np.where(stop > 0, np.searchsorted(batch.traj_of_T, np.arange(n)), 0)
    fork = np.clip(_first_fork(batch, stop), start, stop)
    token = batch.ids_T if batch.has_ids else labels(batch.pieces())
    runs = prefix_runs(token, start, stop, batch.group_of_N, where=valid_N, limit_N=fork)
    stop_R = np.append(runs.start_R[1:], 0)[: len(runs.start_R)]
    last = np.append(runs.seq_of_R[1:] != runs.seq_of_R[:-1], True)[: len(stop_R)]
    stop_R[last] = stop[runs.seq_of_R[last]]
    return PrefixTree(runs.seq_of_R, runs.start_R, stop_R, runs.node_R, runs.members_R, start, fork)


def by_tree(batch: Batch) -> Units:
    """One unit per trajectory and edge of its group's prefix tree: a run of tokens in which no sibling parts.

    A unit starts where the set of valid siblings with the same prefix has changed, and may span steps. Every
    trajectory has its own copy of a shared edge, because each copy was sampled. Where a trajectory forks itself, a unit
    also ends with every step. No states.
    """
    tree = prefix_tree(batch, batch.valid_N)
    sampled = np.flatnonzero(batch.sampled_T)
    step = batch.step_of_T[sampled]
    forks_N = np.zeros(len(batch), dtype=bool)
    forks_N[batch.traj_of_S[_forking(batch)]] = True
    piece = np.where(forks_N[batch.traj_of_S[step]], step, -1)
    run = tree.run_of(sampled)
    starts = np.append(True, (np.diff(run) != 0) | (np.diff(piece) != 0))[: len(sampled)]
    unit_of_T = np.full(len(batch.sampled_T), -1, dtype=np.int64)
    unit_of_T[sampled] = np.cumsum(starts) - 1
    return cut(batch, "tree", unit_of_T, step[starts], has_states=False)


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """The ends of all branches.

    Attributes:
        unit_L: the last unit of each branch. traj_of_L: its trajectory.
        return_L: what the branch got, reward units: the outcome of a trajectory that does not fork, else the rewards
            along the path from the root.
        known_L: the trajectory is valid and, where it forks, somebody scored the last step of this branch.
    """

    unit_L: IntArray
    traj_of_L: IntArray
    return_L: FloatArray
    known_L: BoolArray


def leaves(units: Units) -> Leaves:
    """The units that nothing follows, with the return of the path to each."""
    inner = np.zeros(len(units), dtype=bool)
    inner[units.parent_S[units.parent_S >= 0]] = True
    unit = np.flatnonzero(~inner)
    traj = units.traj_of_S[unit]
    lone = seg_count(traj, n=len(units.group_of_N))[traj] == 1
    got = units.outcome_N[traj]
    if not lone.all():
        path = units.reward_S.tolist()
        for s, parent in enumerate(units.parent_S.tolist()):
            if parent >= 0:
                path[s] += path[parent]
        got = np.where(lone, got, np.array(path)[unit])
    own = np.flatnonzero(units.unit_of_T >= 0)
    last_step_S = units.step_of_S.copy()
    last_step_S[units.unit_of_T[own]] = units.batch.step_of_T[own]
    scored = units.batch.scored_S[last_step_S[unit]]
    return Leaves(unit, traj, got, units.valid_N[traj] & (lone | scored))


def sum_below(units: Units, leaf: Leaves, x_L: FloatArray) -> tuple[FloatArray, IntArray]:
    """Sum of x over the known leaves at or below each unit, inside its trajectory, and their number."""
    total = np.zeros(len(units))
    count = np.zeros(len(units), dtype=np.int64)
    total[leaf.unit_L[leaf.known_L]] = x_L[leaf.known_L]
    count[leaf.unit_L[leaf.known_L]] = 1
    if units.first_fork() < 0:
        n = len(units.group_of_N)
        every = seg_sum(total, units.traj_of_S, n=n)[units.traj_of_S]
        return every, seg_sum(count, units.traj_of_S, n=n)[units.traj_of_S].astype(np.int64)
    sums, counts = total.tolist(), count.tolist()
    for s in range(len(units) - 1, -1, -1):
        parent = int(units.parent_S[s])
        if parent >= 0:
            sums[parent] += sums[s]
            counts[parent] += counts[s]
    return np.array(sums), np.array(counts, dtype=np.int64)


def _forking(batch: Batch) -> IntArray:
    """Steps that do not follow the step before them."""
    first = np.append(True, np.diff(batch.traj_of_S) != 0)
    return np.flatnonzero(batch.parent_S != np.where(first, -1, np.arange(len(first)) - 1))


def _first_fork(batch: Batch, stop_N: IntArray) -> IntArray:
    """First token at which each trajectory forks: that of the step that goes back, or before it, the end of the step
    that it goes back to."""
    out = stop_N.copy()
    forking = _forking(batch)
    if len(forking):
        step_end = np.searchsorted(batch.step_of_T, batch.parent_S[forking], side="right")
        at = np.where(batch.parent_S[forking] >= 0, step_end, 0)
        np.minimum.at(out, batch.traj_of_S[forking], at)
    return out
