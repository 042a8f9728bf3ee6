"""Owen values: Shapley values of players who join in groups, and of groups of groups.

A hierarchy is a nested sequence of players, ``((0, 1), (2, (3, 4)))``. The members of a group share what the group adds
as a whole: the groups of one level play for the value, and the members of a group play for the group's part while
each of the other groups stands there as a whole or not at all. So far fewer coalitions are needed than for the Shapley
value, if the hierarchy is bushy and not too wide: n players in a balanced binary tree need 2 (n² - 1) / 3 + 2. In a
tree that always branches on one side, as parse trees do, it is 2**n; a limit on the coalitions guards against that.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.errors import ConfigError
from apportion.numerics.shapley import _check_players, _values, as_coalitions
from apportion.numerics.typing import Array, FloatArray, IntArray

Hierarchy = int | Sequence[Any]
"""A player, or a group of hierarchies."""

MOST = 2**16
"""Coalitions that a plan without a limit of its own may have."""


@dataclass(frozen=True, slots=True, eq=False)
class OwenPlan:
    """The coalitions to ask for, and what to make of their values.

    Attributes:
        players: P.
        coalition_C: each once; nobody first, everybody second. Bit masks or rows, see `apportion.numerics.shapley`.
        with_K, without_K, weight_K: the terms: coalitions with and without a player (or a group that was not taken
            apart), and how much their difference counts.
        player_E, term_E, share_E: whose terms these are; a group's is shared equally.
        groups_whole: how many terms belong to groups that the limit did not let take apart.
    """

    players: int
    coalition_C: Array
    with_K: IntArray
    without_K: IntArray
    weight_K: FloatArray
    player_E: IntArray
    term_E: IntArray
    share_E: FloatArray
    groups_whole: int


def owen_cost(tree: Hierarchy) -> int:
    """Coalitions that the whole value needs; more than the universe has atoms is an answer too.

    Raises:
        ConfigError: not a hierarchy of players 0 .. n - 1.
    """
    return _Nodes(tree).cost()


def plan_owen(tree: Hierarchy, *, max_coalitions: int | None = None) -> OwenPlan:
    """List the coalitions that the Owen value of a hierarchy needs.

    Args:
        tree: players 0 .. n - 1, each once, nested.
        max_coalitions: limit. Groups are taken apart in the order of how much they count, as long as the coalitions
            last; a group that is left whole has its part shared equally among its players, so that the sum stays
            exact. None takes everything apart, and refuses a hierarchy that needs more than `MOST`.

    Raises:
        ConfigError: not a hierarchy of players 0 .. n - 1, a limit below 2, or without a limit too many coalitions.

    Source: Owen 1977; nested: Winter 1989. The recursion is that of SCAR (arXiv:2505.20417) over a parse tree, for
    groups of any size.
    """
    nodes = _Nodes(tree)
    if max_coalitions is None:
        cost = nodes.cost()
        if cost > MOST:
            told = str(cost) if cost < 10**12 else f"about 10**{len(str(cost)) - 1}"
            raise ConfigError(
                f"plan_owen: this hierarchy needs {told} coalitions, as one that is wide or branches on one side does; "
                f"give max_coalitions, and the groups it does not reach share equally"
            )
        limit = cost
    elif isinstance(max_coalitions, bool) or not isinstance(max_coalitions, int | np.integer) or max_coalitions < 2:
        raise ConfigError(f"plan_owen: max_coalitions is {max_coalitions!r}; give a whole number from 2 on, or None")
    else:
        limit = int(max_coalitions)

    index = {0: 0}
    everybody = nodes.leaves[0]
    index.setdefault(everybody, len(index))
    terms: list[tuple[int, int, float, int]] = []  # with, without, weight, node
    waiting = [(-1.0, 0, 0, 0)]  # weight, running number, node, context
    number = 0
    while waiting:
        weight, _, node, context = heapq.heappop(waiting)
        children = nodes.children[node]
        k = len(children)
        if not k or len(index) + (1 << k) - 2 > limit:
            terms.append((context | nodes.leaves[node], context, -weight, node))
            continue
        union = [context]
        for child in children:
            union += [one | nodes.leaves[child] for one in union]
        for one in union:
            index.setdefault(one, len(index))
        for bits, one in enumerate(union):
            there = bits.bit_count()
            for a, child in enumerate(children):
                if not bits >> a & 1:
                    number += 1
                    share = weight / (k * math.comb(k - 1, there))
                    heapq.heappush(waiting, (share, number, child, one))

    n = everybody.bit_length()
    there_CN = np.array([[mask >> i & 1 for i in range(n)] for mask in index], dtype=bool)
    owners = [nodes.players(node) for _, _, _, node in terms]
    size = np.array([len(own) for own in owners], dtype=np.int64)
    return OwenPlan(
        players=n,
        coalition_C=as_coalitions(there_CN),
        with_K=np.array([index[a] for a, _, _, _ in terms], dtype=np.int64),
        without_K=np.array([index[b] for _, b, _, _ in terms], dtype=np.int64),
        weight_K=np.array([w for _, _, w, _ in terms]),
        player_E=np.array([player for own in owners for player in own], dtype=np.int64),
        term_E=np.repeat(np.arange(len(terms)), size),
        share_E=np.repeat(1.0 / size, size),
        groups_whole=int(np.count_nonzero(size > 1)),
    )


def fold_owen(plan: OwenPlan, value_C: Array) -> FloatArray:
    """Owen values from the values of the plan's coalitions, (..., P); they sum to v(all) - v(nobody).

    Args:
        plan: see `plan_owen`. value_C: (..., C); leading axes are games of their own.

    Raises:
        DataError: another number of values than the plan has coalitions.
    """
    values = _values("fold_owen", value_C, len(plan.coalition_C))
    games = values.reshape(-1, values.shape[-1])
    part = (games[:, plan.with_K] - games[:, plan.without_K]) * plan.weight_K
    own = part[:, plan.term_E] * plan.share_E
    at = np.arange(len(games))[:, None] * plan.players + plan.player_E
    out = np.bincount(at.reshape(-1), weights=own.reshape(-1), minlength=len(games) * plan.players)
    return np.asarray(out.reshape(*values.shape[:-1], plan.players), dtype=np.float64)


def balanced(n: int) -> Hierarchy:
    """Players 0 .. n - 1 in order, halved again and again; for sentences or steps without a parse.

    Raises:
        ConfigError: n below 1.
    """
    _check_players("balanced", n)
    return _halves(0, int(n))


def _halves(low: int, high: int) -> Hierarchy:
    if high - low == 1:
        return low
    middle = (low + high + 1) // 2
    return (_halves(low, middle), _halves(middle, high))


class _Nodes:
    """A hierarchy as flat lists; node 0 is the root, and children stand behind their parents."""

    def __init__(self, tree: Hierarchy) -> None:
        found: list[Any] = [tree]
        players: list[int] = []
        self.children: list[list[int]] = []
        for node in found:  # grows on the way; no recursion, a hierarchy may be as deep as it has players
            inside: list[int] = []
            if isinstance(node, int | np.integer) and not isinstance(node, bool):
                players.append(int(node))
            elif isinstance(node, Sequence) and not isinstance(node, str):
                if not node:
                    raise ConfigError("a hierarchy has an empty group; leave it out")
                inside = list(range(len(found), len(found) + len(node)))
                found += node
            else:
                raise ConfigError(
                    f"a hierarchy consists of players and groups, not of {node!r}; nest numbers from 0 on"
                )
            self.children.append(inside)
        if sorted(players) != list(range(len(players))):
            raise ConfigError(f"a hierarchy holds the players 0 .. n - 1, each once; it has {sorted(players)}")
        self.leaves = [0 if inside else 1 << int(found[node]) for node, inside in enumerate(self.children)]
        for node in range(len(found) - 1, -1, -1):
            for child in self.children[node]:
                self.leaves[node] |= self.leaves[child]

    def players(self, node: int) -> list[int]:
        """Players of a node, in order."""
        mask = self.leaves[node]
        return [i for i in range(mask.bit_length()) if mask >> i & 1]

    def cost(self) -> int:
        """Nobody and everybody, and for every context of a node the proper parts of its children."""
        contexts = [1] * len(self.children)
        total = 2
        for node, inside in enumerate(self.children):
            if inside:
                total += contexts[node] * ((1 << len(inside)) - 2)
                for child in inside:
                    contexts[child] = contexts[node] << (len(inside) - 1)
        return total
