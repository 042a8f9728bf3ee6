"""Shapley values: what each player of a game adds, averaged over the orders in which all could have joined.

A game is a value for each coalition. Nothing is asked here: a plan lists the coalitions whose values are needed, each
once, somebody finds them out, and a fold turns them into one number per player. Coalitions are bit masks (player i is
bit i) up to `LARGEST_MASK` players and rows of a boolean matrix above; `members` turns the former into the latter.
Partitions that are nested have their own value, see `apportion.numerics.owen`.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apportion.errors import ConfigError, DataError
from apportion.numerics.typing import Array, BoolArray, FloatArray, IntArray

LARGEST_EXACT = 20
"""Players up to which all coalitions are enumerated; 2**20 of them are 8 MB."""

LARGEST_MASK = 62
"""Players up to which a coalition is a bit mask in int64."""


class Estimate(NamedTuple):
    """One number per player and its standard error, (..., P); the error is NaN where one sample says nothing of it."""

    value: FloatArray
    error: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class PermutationPlan:
    """Orders of joining, and the coalitions met on the way.

    Attributes:
        players: P.
        coalition_C: the coalitions to ask for, each once, sorted; nobody comes first and everybody last. (C,) int64 bit
            masks, or (C, P) bool above `LARGEST_MASK` players.
        order_WP: the players of each walk as they join.
        at_WP: (W, P + 1) coalition of each walk before the first has joined, after the first, …
        paired: the second half of the walks are those of the first half backwards.
    """

    players: int
    coalition_C: Array
    order_WP: IntArray
    at_WP: IntArray
    paired: bool


def exact(value_C: Array) -> FloatArray:
    """Shapley values from the values of all coalitions.

        phi[i] = Σ_{S without i} |S|! (n - |S| - 1)! / n! · (v(S + i) - v(S))

    Args:
        value_C: (..., 2**n); entry c is the value of the coalition whose players are the bits of c. Leading axes are
            games of their own.

    Returns:
        (..., n) float64, in the unit of the values; sums to v(all) - v(nobody). A player who never changes the value
        gets exactly 0.

    Raises:
        DataError: a number of values that is no power of 2. ConfigError: more than `LARGEST_EXACT` players.

    Source: Shapley 1953.
    """
    values = np.asarray(value_C, dtype=np.float64)
    size = values.shape[-1] if values.ndim else 0
    n = size.bit_length() - 1
    if size < 1 or size != 1 << n:
        raise DataError(f"shapley.exact: {size} values are not those of all coalitions; give 2**n, for each bit mask")
    _check_exact("shapley.exact", n)
    games = values.reshape(-1, size)
    out = np.empty((len(games), n))
    weight = _weights(n)
    for i in range(n):
        halves = games.reshape(len(games), size >> (i + 1), 2, 1 << i)
        out[:, i] = (halves[:, :, 1] - halves[:, :, 0]).reshape(len(games), size >> 1) @ weight
    return out.reshape(*values.shape[:-1], n)


def exact_coalitions(n: int) -> IntArray:
    """Every coalition of n players in the order that `exact` takes, (2**n,) int64 bit masks.

    Raises:
        ConfigError: more than `LARGEST_EXACT` players.
    """
    _check_players("shapley.exact_coalitions", n, least=0)
    _check_exact("shapley.exact_coalitions", n)
    return np.arange(1 << n, dtype=np.int64)


def plan_permutations(
    n: int, m: int, seed: int | np.random.Generator = 0, *, antithetic: bool = True
) -> PermutationPlan:
    """Draw m orders of n players, and list the coalitions that joining in these orders goes through.

    Args:
        n: players. m: orders. seed: a number, or a generator that goes on from where it is.
        antithetic: walk each order backwards as well, so that a player who comes early once comes late once; the errors
            of the two cancel where a player adds less and less, or more and more, the later it comes. At most
            m (n - 1) further coalitions.

    Raises:
        ConfigError: n or m below 1.
    """
    _check_players("shapley.plan_permutations", n)
    if isinstance(m, bool) or not isinstance(m, int | np.integer) or m < 1:
        raise ConfigError(f"shapley.plan_permutations: m is {m!r}; give a whole number of orders from 1 on")
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.broadcast_to(np.arange(n), (m, n)), axis=1)
    if antithetic:
        order = np.concatenate((order, order[:, ::-1]))
    if n <= LARGEST_MASK:
        mask = np.zeros((len(order), n + 1), dtype=np.int64)
        np.cumsum(np.left_shift(1, order), axis=1, out=mask[:, 1:])
        coalition, at = _distinct(mask, n)
    else:
        place = np.argsort(order, axis=1)  # of each player in its walk
        joined = place[:, None, :] < np.arange(n + 1)[:, None]
        packed, at = np.unique(np.packbits(joined, axis=2).reshape(-1, -(-n // 8)), axis=0, return_inverse=True)
        coalition = np.unpackbits(packed, axis=1, count=n).astype(bool)
    return PermutationPlan(n, coalition, order, at.reshape(len(order), n + 1), antithetic)


def fold_permutations(plan: PermutationPlan, value_C: Array) -> Estimate:
    """What each player added on average, from the values of the plan's coalitions.

        phi[i] = mean over walks of v(those before i, and i) - v(those before i)

    Every walk sums to v(all) - v(nobody), so the result does whatever m is. The error is that of independent samples:
    walks, or pairs of a walk and its reverse.

    Args:
        plan: see `plan_permutations`. value_C: (..., C); leading axes are games of their own.

    Raises:
        DataError: another number of values than the plan has coalitions.

    Source: Castro, Gómez and Tejada 2009; antithetic pairs: Mitchell et al. 2022.
    """
    values = _values("shapley.fold_permutations", value_C, len(plan.coalition_C))
    walk = values[..., plan.at_WP]
    walks, n = plan.order_WP.shape
    sample = np.empty((*values.shape[:-1], walks * n))
    sample[..., (plan.order_WP + n * np.arange(walks)[:, None]).reshape(-1)] = (walk[..., 1:] - walk[..., :-1]).reshape(
        sample.shape
    )
    sample = sample.reshape(*values.shape[:-1], walks, n)
    if plan.paired:
        half = len(plan.order_WP) // 2
        sample = (sample[..., :half, :] + sample[..., half:, :]) / 2
    many = sample.shape[-2]
    value = sample.mean(axis=-2)
    if many < 2:
        return Estimate(value, np.full(value.shape, np.nan))
    sample -= value[..., None, :]
    sample *= sample
    return Estimate(value, np.sqrt(sample.sum(axis=-2) / (many * (many - 1))))


def leave_one_out(value_C: Array) -> FloatArray:
    """What the value falls by when one player is missing: v(all) - v(all but i). It is no Shapley value.

    It sums to nothing in particular: two players who can stand in for each other both get 0.

    Args:
        value_C: (..., n + 1): v(all), then v(all but 0), v(all but 1), …, see `leave_one_out_coalitions`.

    Returns:
        (..., n) float64.
    """
    values = np.asarray(value_C, dtype=np.float64)
    if not values.ndim or not values.shape[-1]:
        raise DataError("shapley.leave_one_out: no values; give that of everybody, then that without each player")
    return values[..., :1] - values[..., 1:]


def leave_one_out_coalitions(n: int) -> Array:
    """Everybody, then everybody but one, in the order that `leave_one_out` takes; masks or rows, see the module."""
    _check_players("shapley.leave_one_out_coalitions", n)
    there = np.concatenate((np.ones((1, n), dtype=bool), ~np.eye(n, dtype=bool)))
    return as_coalitions(there)


def members(coalition_C: Array, n: int) -> BoolArray:
    """Who is in each coalition, (C, n) bool, from bit masks or rows."""
    coalition = np.asarray(coalition_C)
    if coalition.ndim == 2:
        return coalition.astype(bool)
    return (coalition[:, None] >> np.arange(n)) & 1 > 0


def as_coalitions(there_CN: BoolArray) -> Array:
    """The inverse of `members`: bit masks up to `LARGEST_MASK` players, the rows themselves above."""
    n = there_CN.shape[1]
    if n > LARGEST_MASK:
        return there_CN
    return there_CN.astype(np.int64) @ np.left_shift(1, np.arange(n, dtype=np.int64))


@functools.lru_cache(maxsize=8)
def _weights(n: int) -> FloatArray:
    """Weight of each coalition of the other n - 1 players, by its bit mask."""
    size = np.zeros(max(1 << max(n - 1, 0), 1), dtype=np.int64)
    for i in range(n - 1):
        size[1 << i : 2 << i] = size[: 1 << i] + 1
    by_size = np.array([1.0 / (n * math.comb(n - 1, k)) for k in range(n)])
    out = by_size[size] if n else np.zeros(1)
    out.setflags(write=False)
    return out


def _distinct(mask_WP: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """The masks that occur, sorted, and the place of each entry among them."""
    if 1 << n > 4 * mask_WP.size + 4096:
        return np.unique(mask_WP, return_inverse=True)
    there = np.zeros(1 << n, dtype=np.int64)  # a table of all is several times as fast as sorting
    there[mask_WP] = 1
    return np.flatnonzero(there), (np.cumsum(there) - 1)[mask_WP]


def _values(name: str, value_C: Array, many: int) -> FloatArray:
    values = np.asarray(value_C, dtype=np.float64)
    if not values.ndim or values.shape[-1] != many:
        got = values.shape[-1] if values.ndim else "no"
        raise DataError(f"{name}: {got} values for {many} coalitions; give one for each, in the order of the plan")
    return values


def _check_players(name: str, n: int, least: int = 1) -> None:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < least:
        raise ConfigError(f"{name}: n is {n!r}; give a whole number of players from {least} on")


def _check_exact(name: str, n: int) -> None:
    if n > LARGEST_EXACT:
        raise ConfigError(
            f"{name}: {n} players have 2**{n} coalitions; it takes up to {LARGEST_EXACT} players, so sample orders "
            f"with plan_permutations"
        )
