"""What sequences share: common prefixes inside groups, and the prefix tree they form, as runs.

The tree is never built node by node. The set of sequences that share a prefix only changes where one of them drops
out, so each sequence is a few *runs*: stretches of positions whose prefixes have the same sharers. A run stands for
the tree's edge (and the node at its end); sequences on the same edge have runs with the same node id.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion.errors import DataError
from apportion.numerics import _numpy_prefix, kernels
from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray


class Pairs(NamedTuple):
    """Every ordered pair of different sequences of one group, and how many leading positions the two share."""

    first_P: IntArray
    second_P: IntArray
    length_P: IntArray


class Runs(NamedTuple):
    """The prefix tree of every group.

    Attributes:
        seq_of_R: sequence of each run, non-decreasing; the runs of a sequence stand in order and cover it.
        start_R: first position of each run in the flat array.
        node_R: edge of the tree; equal for the sequences that share the run's prefixes.
        members_R: selected sequences of the group that share these prefixes, the own one included if selected.
    """

    seq_of_R: IntArray
    start_R: IntArray
    node_R: IntArray
    members_R: IntArray


def common_prefixes(token_X: IntArray, start_N: IntArray, stop_N: IntArray, group_of_N: IntArray) -> Pairs:
    """Length of the longest common prefix of every ordered pair of different sequences inside each group.

    Costs one comparison for each position that a sequence shares with those before it, and G² integers for a group of
    G: what a third sequence shares with two others follows from what these share with each other.

    Args:
        token_X: ids. start_N, stop_N: sequence i is ``token_X[start_N[i]:stop_N[i]]``.
        group_of_N: group of each sequence, any order.

    Raises:
        DataError: a sequence that reaches outside the ids.
    """
    blocks = _blocks(token_X, start_N, stop_N, group_of_N)
    return Pairs(*_numpy_prefix.pairs(*blocks))


def _blocks(
    token_X: IntArray, start_N: IntArray, stop_N: IntArray, group_of_N: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Sequences by group, where groups start in that order, where their G × G blocks start, and the blocks."""
    token = np.ascontiguousarray(token_X, dtype=np.int32 if np.asarray(token_X).dtype == np.int32 else np.int64)
    start, stop, group = (np.ascontiguousarray(x, dtype=np.int64) for x in (start_N, stop_N, group_of_N))
    if len(start) and (start.min() < 0 or stop.max() > len(token) or (stop < start).any()):
        raise DataError(f"common_prefixes: a sequence reaches outside the {len(token)} ids; check start_N and stop_N")
    order = np.argsort(group, kind="stable")
    bounds = np.flatnonzero(np.append(np.append(True, np.diff(group[order]) != 0), True)[-len(order) - 1 :])
    bounds = bounds if len(order) else np.zeros(1, dtype=np.int64)
    size = np.diff(bounds)
    block = np.concatenate(([0], np.cumsum(size * size)))
    shared = np.empty(int(block[-1]), dtype=np.int64)
    kernels.pick(len(token), "prefix", exact=True).lcp(token, start[order], stop[order], bounds, block, shared)
    return order, bounds, block, shared


def prefix_runs(
    token_X: IntArray,
    start_N: IntArray,
    stop_N: IntArray,
    group_of_N: IntArray,
    *,
    where: BoolArray | None = None,
    limit_N: IntArray | None = None,
) -> Runs:
    """The prefix tree of every group, see `Runs`.

    Args:
        token_X, start_N, stop_N, group_of_N: see `common_prefixes`; sequences stand in order in ``token_X``.
        where: sequences that count as sharers; the others get runs too, and change nobody's.
        limit_N: position from which a sequence shares nothing any more; default its end.
    """
    n = len(start_N)
    start, stop = np.asarray(start_N, dtype=np.int64), np.asarray(stop_N, dtype=np.int64)
    end = stop if limit_N is None else np.clip(np.asarray(limit_N, dtype=np.int64), start, stop)
    chosen = np.ones(n, dtype=bool) if where is None else np.asarray(where, dtype=bool)
    blocks = _blocks(token_X, start, end, group_of_N)
    seq, at, node, members = kernels.pick(len(token_X), "prefix", exact=True).runs(*blocks, stop - start, chosen)
    return Runs(seq, start[seq] + at, node, members)


def prefix_values(runs: Runs, x_N: Array, *, where: BoolArray | None = None, leave_one_out: bool = False) -> FloatArray:
    """V of every run: the mean of x over the selected sequences that share its prefixes, (R,) float64.

    Args:
        runs: see `prefix_runs`, called with the same ``where``.
        x_N: one number per sequence; never read outside ``where``.
        leave_one_out: the mean over the *other* sharers.

    Returns:
        0 where nobody shares.

    Source: TEMPO's prefix-to-tree value (arXiv:2509.18314); a leaf mean.
    """
    x = np.asarray(x_N, dtype=np.float64)
    own_R = np.ones(len(runs.seq_of_R)) if where is None else np.asarray(where, dtype=np.float64)[runs.seq_of_R]
    x_R = np.where(own_R > 0, x[runs.seq_of_R], 0.0)
    total_R = np.bincount(runs.node_R, weights=x_R)[runs.node_R]
    if leave_one_out:
        total_R, count_R = total_R - x_R, runs.members_R - own_R
        return np.where(count_R > 0, total_R, 0.0) / np.maximum(count_R, 1.0)
    return total_R / np.maximum(runs.members_R, 1)


def prefix_changes(
    runs: Runs, x_N: Array, group_of_N: IntArray, *, where: BoolArray | None = None, leave_one_out: bool = False
) -> FloatArray:
    """What V changes by at the first position of every run, (R,) float64; inside a run it does not change.

    Before the first run of a sequence stands the mean of its group. With ``leave_one_out`` a run without other
    sharers changes nothing: the last known value holds on.

    Args:
        runs, x_N, where, leave_one_out: see `prefix_values`. group_of_N: group of each sequence.
    """
    group = np.asarray(group_of_N, dtype=np.int64)
    chosen = np.ones(len(group)) if where is None else np.asarray(where, dtype=np.float64)
    x: FloatArray = np.where(chosen > 0, np.asarray(x_N, dtype=np.float64), 0.0)
    value_R = prefix_values(runs, x, where=where, leave_one_out=leave_one_out)
    count_N, total_N = (np.asarray(np.bincount(group, weights=w)[group], dtype=np.float64) for w in (chosen, x))
    if leave_one_out:
        count_N, total_N = count_N - chosen, total_N - x
    root_N = np.where(count_N > 0, total_N, 0.0) / np.maximum(count_N, 1.0)
    first_R = np.append(True, runs.seq_of_R[1:] != runs.seq_of_R[:-1])[: len(value_R)]
    before_R = np.append(0.0, value_R)[: len(value_R)]
    before_R[first_R] = root_N[runs.seq_of_R[first_R]]
    change_R: FloatArray = value_R - before_R
    if leave_one_out:
        change_R[runs.members_R - chosen[runs.seq_of_R] < 1] = 0.0
    return change_R
