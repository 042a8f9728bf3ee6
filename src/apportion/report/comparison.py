"""What a choice was worth in its state: those who made it against those who did otherwise, and what chance would do.

    difference = mean outcome of rollouts that did it - mean outcome of rollouts that never did, in one state
    chance     = share of all ways to hand out the same outcomes whose difference is at least as large, in size

One vote per rollout, however often it came by. The chance is that of a two-sided permutation test: exact for outcomes
of two kinds and where there are at most 2,000 ways, else from 2,000 seeded draws, beyond 64 rollouts by the normal
approximation. It is of one state, and says nothing about having looked at many.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

WAYS = 2000
"""Ways to hand out outcomes that are counted, or drawn where there are more."""
DRAWN = 64
"""Rollouts up to which ways are drawn; beyond, the normal approximation is as good and costs nothing."""


class Comparison(NamedTuple):
    """Rollouts that made a choice, rollouts that did otherwise, and how their outcomes differ."""

    rollouts: int
    mean: float | None
    others: int
    others_mean: float | None
    chance: float | None  # None where nobody did otherwise

    @property
    def difference(self) -> float | None:
        """Mean outcome with the choice less without it; None where one side is empty."""
        return None if self.mean is None or self.others_mean is None else self.mean - self.others_mean


def compare(did: Sequence[float], others: Sequence[float]) -> Comparison:
    """Hold the outcomes of those who made a choice against those of the others.

    Args:
        did, others: one outcome per rollout, reward units.
    """
    mean = sum(did) / len(did) if did else None
    rest = sum(others) / len(others) if others else None
    if mean is None or rest is None:
        return Comparison(len(did), mean, len(others), rest, None)
    every = tuple(sorted([*did, *others]))
    return Comparison(len(did), mean, len(others), rest, chance(every, len(did), abs(mean - rest)))


@lru_cache(maxsize=1 << 16)
def chance(outcomes: tuple[float, ...], chosen: int, difference: float) -> float:
    """Share of ways to give ``chosen`` of the outcomes to one side that differ by at least ``difference``.

    Args:
        outcomes: all of them, in any order.
        chosen: size of one side, at least 1 and below all.
        difference: of the means, not negative.
    """
    n = len(outcomes)
    slack = 1e-9 * max(1.0, *(abs(value) for value in outcomes))
    kinds = set(outcomes)
    if len(kinds) == 1:
        return 1.0
    if len(kinds) == 2:
        return _of_two_kinds(outcomes, chosen, difference - slack)
    values = np.array(outcomes)
    few = math.comb(n, chosen) <= WAYS
    if not few and n > DRAWN:
        spread = float(values.std(ddof=1)) * math.sqrt(1 / chosen + 1 / (n - chosen))
        return math.erfc(difference / spread / math.sqrt(2))
    ways = _ways(n, chosen)
    picked = values[ways].sum(axis=1)
    gaps = np.abs(picked / chosen - (values.sum() - picked) / (n - chosen))
    hits = int((gaps >= difference - slack).sum())
    # of drawn ways the one that was seen is one more, so that no chance is zero
    return hits / len(ways) if few else (hits + 1) / (len(ways) + 1)


def _of_two_kinds(outcomes: tuple[float, ...], chosen: int, difference: float) -> float:
    """Exact, for wins and losses: how many wins the chosen can get has a hypergeometric distribution."""
    n, high, low = len(outcomes), max(outcomes), min(outcomes)
    wins = sum(value == high for value in outcomes)
    hits = 0
    for got in range(max(0, chosen - (n - wins)), min(chosen, wins) + 1):
        gap = abs(got / chosen - (wins - got) / (n - chosen)) * (high - low)
        if gap >= difference:
            hits += math.comb(wins, got) * math.comb(n - wins, chosen - got)
    return hits / math.comb(n, chosen)


@lru_cache(maxsize=256)
def _ways(n: int, chosen: int) -> NDArray[np.int64]:
    if math.comb(n, chosen) <= WAYS:
        return np.array(list(itertools.combinations(range(n), chosen)), dtype=np.int64)
    order = np.argsort(np.random.default_rng([n, chosen]).random((WAYS, n)), axis=1)
    return order[:, :chosen].astype(np.int64)


def compare_actions(
    visits: Sequence[tuple[int, str]], outcomes: Mapping[int, float]
) -> list[tuple[str, list[int], Comparison]]:
    """Each thing done in one state, the positions of its visits, and what came of it.

    Args:
        visits: (rollout, action) of each visit.
        outcomes: outcome of each scored rollout; the others have no vote.
    """
    places: dict[str, list[int]] = {}
    for place, (_, action) in enumerate(visits):
        places.setdefault(action, []).append(place)
    everyone = {t for t, _ in visits if t in outcomes}
    out = []
    for action, own in places.items():
        who = {visits[place][0] for place in own} & everyone
        rest = everyone - who
        out.append((action, own, compare([outcomes[t] for t in sorted(who)], [outcomes[t] for t in sorted(rest)])))
    return out


def as_entry(found: Comparison) -> dict[str, Any]:
    """JSON values; what is not known is left out."""
    entry = {"n": found.rollouts, "mean": found.mean, "others": found.others, "others_mean": found.others_mean}
    entry["chance"] = found.chance
    return {
        key: float(f"{value:.4g}") if isinstance(value, float) else value
        for key, value in entry.items()
        if value is not None
    }
