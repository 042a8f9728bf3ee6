"""The decision tree of each group: which units chose at the same node, and the value behind every choice.

Two ways to see it. *Merged*: a node is an exact prefix, everything sampled and observed since the first sampled token,
step by step; equal choices after equal prefixes are one edge, whichever rollout or branch took them. *Apart*: every
unit is an edge of its own below the unit before it (`Units.parent_S`); first units are the edges of the group's root.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.methods.groups import added
from apportion.numerics import BoolArray, FloatArray, IntArray
from apportion.units import Units, leaves

EQUAL = ("merged", "apart")
VALUES = ("children", "leaves")
STEP, CHOICE = b"\xff" * 8, b"\xfe" * 8
"""What stands before the context of a step, and before what was sampled in it; no token id looks like this."""


@dataclass(frozen=True, slots=True)
class Branches:
    """One row per unit.

    Attributes:
        node_S: node that it chose at. edge_S: its choice; equal for copies of one.
        first_S: the first unit of its edge, for counting edges once.
        after_S, before_S: value behind the choice, and of the node, reward units; NaN where no scored leaf is below.
        siblings_S: choices at its node that have a value, itself included.
    """

    node_S: IntArray
    edge_S: IntArray
    first_S: BoolArray
    after_S: FloatArray
    before_S: FloatArray
    siblings_S: IntArray

    @property
    def known_S(self) -> BoolArray:
        """A scored leaf is below."""
        return np.asarray(np.isfinite(self.after_S))

    @property
    def change_S(self) -> FloatArray:
        """What the choice changes: value behind it less that of its node; 0 where that is rounding, or unknown."""
        after_S, before_S = np.nan_to_num(self.after_S), np.nan_to_num(self.before_S)
        return added([after_S, np.where(self.known_S, -before_S, -after_S)])

    @property
    def counted_S(self) -> BoolArray:
        """One unit for each edge that has a value."""
        return self.known_S & self.first_S


def branches(units: Units, *, equal: str = "merged", value: str = "children") -> Branches:
    """Nodes, choices and values of every unit; trajectories that do not take part have neither company nor value.

    Args:
        units: of any cut. Reads reward_S, outcome_N, the tokens (merged) and the parents.
        equal: equal choices after equal prefixes are one edge ("merged"), or each unit is its own ("apart").
        value: V of a node is the plain mean over its "children" (an early leaf counts as a sibling's whole subtree), or
            the mean over the "leaves" below it.

    A choice that was followed by different observations has the mean over the nodes that it led to.
    """
    start, end = _prefixes(units) if equal == "merged" else _alone(units)
    node: dict[Any, int] = {}
    edge: dict[Any, int] = {}
    node_S = np.array([node.setdefault(key, len(node)) for key in start], dtype=np.int64)
    edge_S = np.array([edge.setdefault(key, len(edge)) for key in zip(start, end, strict=True)], dtype=np.int64)
    first_S = np.zeros(len(units), dtype=np.bool_)
    valid = np.flatnonzero(units.valid_S)
    first_S[valid[np.unique(edge_S[valid], return_index=True)[1]]] = True

    leaf = leaves(units)
    ends: dict[int, list[float]] = {}
    for s, got, known in zip(leaf.unit_L.tolist(), leaf.return_L.tolist(), leaf.known_L.tolist(), strict=True):
        if known:
            ends.setdefault(int(edge_S[s]), []).append(got)
    below: list[dict[int, None]] = [{} for _ in edge]  # nodes that an edge leads to
    choices: list[dict[int, None]] = [{} for _ in node]
    for s in valid.tolist():
        choices[node_S[s]][int(edge_S[s])] = None
        if (parent := int(units.parent_S[s])) >= 0:
            below[edge_S[parent]][int(node_S[s])] = None
    value_E, value_V = _values(below, choices, ends, by_leaf=value == "leaves")
    known_E = np.isfinite(value_E)
    siblings_V = np.array([sum(bool(known_E[e]) for e in of) for of in choices], dtype=np.int64)
    takes_part = np.asarray(units.valid_S)
    return Branches(
        node_S=node_S,
        edge_S=edge_S,
        first_S=first_S,
        after_S=np.where(takes_part, value_E[edge_S], np.nan),
        before_S=np.where(takes_part, value_V[node_S], np.nan),
        siblings_S=np.where(takes_part, siblings_V[node_S], 0),
    )


def _values(
    below: list[dict[int, None]], choices: list[dict[int, None]], ends: dict[int, list[float]], *, by_leaf: bool
) -> tuple[FloatArray, FloatArray]:
    """Values of edges and of nodes; children before parents, without recursion."""
    value_E, count_E = np.full(len(below), np.nan), np.zeros(len(below))
    value_V, count_V = np.full(len(choices), np.nan), np.zeros(len(choices))
    done_E, done_V = [False] * len(below), [False] * len(choices)
    for root in range(len(choices)):
        waiting = [(root, True)]
        while waiting:
            at, is_node = waiting[-1]
            if (done_V if is_node else done_E)[at]:
                waiting.pop()
                continue
            due = [(k, not is_node) for k in (choices if is_node else below)[at]]
            due = [(k, kind) for k, kind in due if not (done_V if kind else done_E)[k]]
            if due:
                waiting += due
                continue
            waiting.pop()
            if is_node:
                done_V[at] = True
                parts = [(value_E[k], count_E[k]) for k in choices[at]]
                value_V[at], count_V[at] = _mean(parts, by_leaf)
            else:
                done_E[at] = True
                parts = [(value_V[k], count_V[k]) for k in below[at]]
                own = ends.get(at, [])
                parts += [(float(np.mean(own)), float(len(own)))] if own else []
                value_E[at], count_E[at] = _mean(parts, by_leaf)
    return value_E, value_V


def _mean(parts: list[tuple[float, float]], by_leaf: bool) -> tuple[float, float]:
    """Mean of what has a value, and leaves in all; NaN of nothing."""
    known = [(value, count) for value, count in parts if count > 0]
    leaves = sum(count for _, count in known)
    if not known:
        return float("nan"), 0.0
    weights = [count if by_leaf else 1.0 for _, count in known]
    return sum(w * value for w, (value, _) in zip(weights, known, strict=True)) / sum(weights), leaves


def _alone(units: Units) -> tuple[list[Any], list[Any]]:
    group = units.group_of_S.tolist()
    start = [p if p >= 0 else ("root", g) for p, g in zip(units.parent_S.tolist(), group, strict=True)]
    return start, list(range(len(units)))


def _prefixes(units: Units) -> tuple[list[Any], list[Any]]:
    """Digest of everything before each unit, and of everything up to its end, as keys inside the group."""
    batch = units.batch
    token_T = np.ascontiguousarray(batch.ids_T if batch.has_ids else _words(units), dtype=np.int64)
    steps = len(batch.traj_of_S)
    bounds = np.searchsorted(batch.step_of_T, np.arange(steps + 1))
    begins = bounds[:-1] + np.bincount(batch.step_of_T[~batch.sampled_T], minlength=steps)
    marks: list[list[tuple[int, int, bool]]] = [[] for _ in range(steps)]  # (position, unit, whether it ends there)
    for s, (step, first, last) in enumerate(zip(*_extent(units, begins), strict=True)):
        marks[step].append((first, s, False))
        marks[int(batch.step_of_T[last - 1]) if last > first else step].append((last, s, True))
    start: list[Any] = [None] * len(units)
    end: list[Any] = [None] * len(units)
    after: list[Any] = [None] * steps
    group = batch.group_of_N[batch.traj_of_S].tolist()
    seen = _Contexts(batch, token_T, bounds, begins)
    for i in range(steps):
        parent = int(batch.parent_S[i])
        digest = hashlib.blake2b(digest_size=16) if parent < 0 else after[parent].copy()
        digest.update(STEP + (b"" if parent < 0 else seen.new(i, parent).tobytes()) + CHOICE)
        at = int(begins[i])
        for position, s, ends in sorted(marks[i], key=lambda mark: (mark[0], mark[1], mark[2])):
            digest.update(token_T[at:position].tobytes())
            at = position
            (end if ends else start)[s] = (group[i], digest.digest())
        digest.update(token_T[at : bounds[i + 1]].tobytes())
        after[i] = digest
    return start, end


class _Contexts:
    """The context that is new before each step, also where a rewritten prompt repeats what came before."""

    def __init__(self, batch: Any, token_T: IntArray, bounds: IntArray, begins: IntArray) -> None:
        self.batch, self.token_T, self.bounds, self.begins = batch, token_T, bounds, begins

    def new(self, i: int, parent: int) -> IntArray:
        own = self.token_T[self.bounds[i] : self.begins[i]]
        if not self.batch.fresh_S[i]:
            return own
        pieces, at = [], parent
        while True:  # back to where the prompt was written anew
            pieces.append(self.token_T[self.bounds[at] : self.bounds[at + 1]])
            if self.batch.fresh_S[at] or self.batch.parent_S[at] < 0:
                break
            at = int(self.batch.parent_S[at])
        before = np.concatenate(pieces[::-1])
        return own[len(before) :] if np.array_equal(own[: len(before)], before) else own


def _extent(units: Units, begins: IntArray) -> tuple[list[int], list[int], list[int]]:
    """First step, first token and the token behind the last of each unit; both the action's place for an empty one."""
    own = np.flatnonzero(units.unit_of_T >= 0)
    first, last = begins[units.step_of_S].copy(), begins[units.step_of_S].copy()
    step = units.step_of_S.copy()
    first[units.unit_of_T[own][::-1]] = own[::-1]
    step[units.unit_of_T[own][::-1]] = units.batch.step_of_T[own][::-1]
    last[units.unit_of_T[own]] = own + 1
    return step.tolist(), first.tolist(), last.tolist()


def _words(units: Units) -> IntArray:
    ids: dict[str, int] = {}
    return np.array([ids.setdefault(piece, len(ids)) for piece in units.batch.pieces()], dtype=np.int64)
