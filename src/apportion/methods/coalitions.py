"""Which coalitions of players to ask about, and Shapley or Owen values from what came back.

A `Game` is planned once more when its answers are folded: equal arguments, equal game.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apportion.asks import Ask
from apportion.errors import ConfigError
from apportion.methods.groups import one_of
from apportion.numerics import BoolArray, FloatArray
from apportion.numerics.owen import Hierarchy, OwenPlan, fold_owen, plan_owen
from apportion.numerics.shapley import (
    LARGEST_EXACT,
    PermutationPlan,
    exact,
    exact_coalitions,
    fold_permutations,
    members,
    plan_permutations,
)
from apportion.units import Units


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """The coalitions that one rollout is asked about.

    Attributes:
        kind: "exact", "permutation" or "owen".
        there_CP: who is in each coalition; nobody is in one of them, everybody in another.
        plan: of the estimator; None for the exact one.
    """

    kind: str
    there_CP: BoolArray
    plan: PermutationPlan | OwenPlan | None = None

    @property
    def nobody(self) -> int:
        """Which coalition is empty."""
        return int(np.argmin(self.there_CP.sum(axis=1)))

    @property
    def everybody(self) -> int:
        """Which coalition has everybody in it."""
        return int(np.argmax(self.there_CP.sum(axis=1)))

    def fold(self, value_C: FloatArray) -> FloatArray:
        """One number per player; NaN where a value that it hangs on is missing (NaN).

        Of sampled orders those are left out in which a value is missing, so what remains still adds up.
        """
        if isinstance(self.plan, PermutationPlan):
            return _of_whole_walks(self.plan, value_C)
        return exact(value_C) if self.plan is None else fold_owen(self.plan, value_C)

    def walks_lost(self, value_C: FloatArray) -> int:
        """Sampled orders (pairs of them) that were left out."""
        if not isinstance(self.plan, PermutationPlan):
            return 0
        whole = _whole(self.plan, value_C)
        return len(whole) - int(np.count_nonzero(whole))


def game_of(
    who: str,
    players: int,
    *,
    estimator: str,
    orders: int | None,
    antithetic: bool,
    max_evals: int,
    seed: int,
    exact_up_to: int,
    tree: Callable[[], Hierarchy] | None = None,
) -> Game:
    """Choose the coalitions.

    Args:
        who: for messages. players: at least one.
        estimator: "exact", "permutation", "owen" (where there is a tree), or "auto": the first of them that
            ``max_evals`` allows, exact up to ``exact_up_to`` players.
        orders: sampled orders; None = as many as ``max_evals`` allows.
        antithetic: walk each order backwards too.
        max_evals: coalitions at most. seed: of the orders. tree: the hierarchy, made when it is needed.

    Raises:
        ConfigError: the estimator needs more than ``max_evals``.
    """
    estimators = ("auto", "exact", "permutation", *(("owen",) if tree is not None else ()))
    one_of(who, estimators, estimator=estimator)
    if max_evals < 2 or (orders is not None and orders < 1):
        raise ConfigError(f"{who}: max_evals={max_evals}, orders={orders}; give at least 2 evaluations and 1 order")
    if estimator == "auto" and players <= exact_up_to and 1 << players <= max_evals:
        estimator = "exact"
    if estimator == "exact":
        if players > LARGEST_EXACT or 1 << players > max_evals:
            raise ConfigError(
                f"{who}: {players} players have 2**{players} coalitions, and max_evals is {max_evals}; raise it (up to "
                f"{LARGEST_EXACT} players), or take another estimator"
            )
        return Game("exact", members(exact_coalitions(players), players))
    each = max((players - 1) * (2 if antithetic else 1), 1)
    fit = (max_evals - 2) // each
    wanted = max(fit, 1) if orders is None else orders
    if estimator == "permutation" or (estimator == "auto" and (wanted <= fit or tree is None)):
        if wanted > fit:
            raise ConfigError(
                f"{who}: {wanted} orders of {players} players need up to {2 + wanted * each} evaluations, and "
                f"max_evals is {max_evals}; raise it, or " + ("lower orders" if wanted > 1 else "cut into fewer units")
            )
        walks = plan_permutations(players, wanted, seed, antithetic=antithetic)
        return Game("permutation", members(walks.coalition_C, players), walks)
    assert tree is not None
    nested = plan_owen(tree(), max_coalitions=max_evals)
    return Game("owen", members(nested.coalition_C, players), nested)


def seeds_of(units: Units, seed: int) -> list[int]:
    """A seed for each rollout that follows from what the policy sampled, not from where the rollout stands."""
    batch = units.batch
    traj_T = batch.traj_of_T[batch.sampled_T]
    bounds = np.searchsorted(traj_T, np.arange(len(units.group_of_N) + 1)).tolist()
    ids_T = batch.ids_T[batch.sampled_T]
    told = np.asarray(batch.pieces(), dtype=object)[batch.sampled_T] if not batch.has_ids else ids_T
    out = []
    for first, stop in itertools.pairwise(bounds):
        text = f"{seed}|{','.join(map(str, told[first:stop].tolist()))}"
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
        out.append(int.from_bytes(digest.digest(), "big"))
    return out


def balanced_over(items: list[Hierarchy]) -> Hierarchy:
    """Hierarchies in order, halved again and again."""
    if len(items) == 1:
        return items[0]
    middle = (len(items) + 1) // 2
    return (balanced_over(items[:middle]), balanced_over(items[middle:]))


def ask_all(games: dict[int, Game], ask: Callable[[int, BoolArray], Ask]) -> list[Ask]:
    """Every coalition of every game, in order."""
    return [ask(traj, there) for traj, game in games.items() for there in game.there_CP]


def values_of(games: dict[int, Game], value_A: FloatArray) -> dict[int, FloatArray]:
    """The answers of each game, (C,)."""
    ends = np.cumsum([len(game.there_CP) for game in games.values()])
    return dict(zip(games, np.split(value_A, ends[:-1]), strict=True)) if games else {}


def _whole(plan: PermutationPlan, value_C: FloatArray) -> BoolArray:
    """Walks, or pairs of a walk and its reverse, in which no value is missing."""
    whole_W = np.asarray(np.isfinite(value_C)[plan.at_WP].all(axis=1))
    half = len(whole_W) // 2
    return np.asarray(whole_W[:half] & whole_W[half:] if plan.paired else whole_W)


def _of_whole_walks(plan: PermutationPlan, value_C: FloatArray) -> FloatArray:
    whole = _whole(plan, value_C)
    if not whole.any():
        return np.full(plan.players, np.nan)
    kept = np.tile(whole, 2) if plan.paired else whole
    walks = PermutationPlan(plan.players, plan.coalition_C, plan.order_WP[kept], plan.at_WP[kept], plan.paired)
    return fold_permutations(walks, value_C).value
