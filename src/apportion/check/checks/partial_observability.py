"""Observations that do not tell the state: what an action leads to depends on what was before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apportion.check.findings import Finding, Yields, places
from apportion.check.moves import Moves, short, step_name
from apportion.check.registry import register
from apportion.check.significance import benjamini_hochberg, permutation_p, within
from apportion.numerics import Array, FloatArray, IntArray, labels
from apportion.units import Units

RATE = 0.01
"""Share of false convictions that is accepted, on average (Benjamini-Hochberg)."""
PLACES = 300
"""Pairs of state and action that are tested, those with most visits first."""
ROWS = 400
"""Visits of a pair that are looked at, evenly spread."""
LEAST = 6
"""Visits, in rollouts of their own, below which a pair is not tested."""
FEATURES, ENDINGS = 24, 6
"""Earlier states that are tried as explanation, and kinds of what follows that are told apart; the rest is one kind."""
PERMUTATIONS = 4000


@dataclass(frozen=True, slots=True)
class _Case:
    """One pair of state and action: its visits, what followed, and the earlier state that explains it best."""

    rows: IntArray
    after: IntArray
    feature: int
    without: IntArray
    p: float


@register("partial-observability", on="units")
def partial_observability(units: Units) -> Yields:
    """States in which an equal action leads to different things, depending on what the rollout saw before.

    What follows an action (next state, reward) depends on the state and the action alone if the key tells the state.
    For each pair of state and action, with one visit per rollout, a permutation test asks whether having been in some
    earlier state changes the distribution of what follows: the largest of all statistics Σ n(h, y)² / n(h) over earlier
    states h, against rearrangements of what followed inside each group. Benjamini-Hochberg over all pairs.
    """
    if units.state_S is None or not len(units):
        return
    moves = Moves(units)
    tested = [case for rows in _visits(moves) if (case := _test(moves, rows)) is not None]
    if not tested:
        return
    guilty = [case for case, bad in zip(tested, benjamini_hochberg([c.p for c in tested], RATE), strict=True) if bad]
    if not guilty:
        return
    worst = min(guilty, key=lambda case: (case.p, -len(case.rows)))
    a, b = _contrast(worst)
    spot = int(worst.rows[0])
    clue = int(np.flatnonzero(moves.key_S == worst.feature)[0])
    yield Finding(
        "partial-observability",
        "warning",
        f"in {len(guilty)} of {len(tested)} tested pairs of state and action, what follows depends on what was seen "
        f"before: {short(moves.steps[spot].action)!r} in {moves.key_text(spot)!r} has one and the same consequence in "
        f"{a[0]} of {a[1]} rollouts that had been in {moves.key_text(clue)!r}, and in {b[0]} of {b[1]} that had not "
        f"(p = {worst.p:.2g}); credit by equal observations mixes states",
        "put what is hidden into Step.state (inventory, phase), group by histories (`hgpo`), or use a critic that is "
        "told more at training time",
        {
            "pairs": len(guilty),
            "of": len(tested),
            "share": sum(len(case.rows) for case in guilty) / max(1, sum(len(case.rows) for case in tested)),
            "p": worst.p,
            "false_discovery_rate": RATE,
            "state": moves.key_text(spot),
            "action": short(moves.steps[spot].action),
            "had_been_in": moves.key_text(clue),
            "with": list(a),
            "without": list(b),
        },
        places(step_name(units.batch, int(case.rows[0])) for case in sorted(guilty, key=lambda case: case.p)),
    )


def _visits(moves: Moves) -> list[IntArray]:
    """First visits of each rollout to each pair of key and action, for the pairs with most of them."""
    usable = np.flatnonzero(~(moves.batch.truncated_S & (moves.next_S < 0)))
    pair = labels(moves.key_S[usable], moves.action_S[usable])
    once = np.sort(np.unique(labels(pair, moves.units.traj_of_S[usable]), return_index=True)[1])
    rows, pair = usable[once], pair[once]
    size = np.bincount(pair)
    order = np.argsort(pair, kind="stable")
    bounds = np.concatenate(([0], np.cumsum(size)))
    chosen = np.argsort(-size, kind="stable")[:PLACES]
    return [rows[order[bounds[p] : bounds[p + 1]]] for p in chosen.tolist() if size[p] >= LEAST]


def _test(moves: Moves, rows: IntArray) -> _Case | None:
    if len(rows) > ROWS:
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, ROWS).astype(np.int64))]
    after = _followed(moves, rows)
    if np.sort(np.bincount(after))[-2:].min() < 2 or int(after.max()) == 0:
        return None
    seen, names = _earlier(moves, rows)
    if not len(names):
        return None
    kinds = np.eye(int(after.max()) + 1)[after]
    have = seen.sum(axis=0)
    stratum = moves.units.group_of_S[rows]

    def statistic(order: Array) -> FloatArray:
        shuffled = kinds[order]  # (draws, rows, endings)
        total = shuffled.sum(axis=1, keepdims=True)
        with_it = np.einsum("rf,dry->dfy", seen, shuffled)
        purity = (with_it**2).sum(axis=2) / have + ((total - with_it) ** 2).sum(axis=2) / (len(rows) - have)
        out: FloatArray = purity
        return out

    own = statistic(np.arange(len(rows))[None])[0]
    rng = np.random.default_rng(len(rows))  # equal rollouts, equal findings
    p = permutation_p(
        float(own.max()), lambda draws: statistic(within(stratum, draws, rng)).max(axis=1), most=PERMUTATIONS
    )
    best = int(own.argmax())
    return _Case(rows, after, int(names[best]), np.flatnonzero(seen[:, best] == 0), p)


def _followed(moves: Moves, rows: IntArray) -> IntArray:
    """Number of what followed each visit, next key and reward; rare ones share the last number."""
    following = moves.next_S[rows]
    key = np.where(following >= 0, moves.key_S[np.maximum(following, 0)], -1)
    kind = labels(key, np.round(moves.units.reward_S[rows], 6))
    size = np.bincount(kind)
    rank = np.empty(len(size), dtype=np.int64)
    rank[np.argsort(-size, kind="stable")] = np.arange(len(size))
    return np.minimum(rank[kind], ENDINGS - 1)


def _earlier(moves: Moves, rows: IntArray) -> tuple[FloatArray, IntArray]:
    """(rows, features) 1 where a rollout had been in a state before the visit, for the states that divide them best."""
    own = moves.key_S[rows[0]]
    first = rows - moves.time_S[rows]
    sets = [np.unique(moves.key_S[lo:hi]) for lo, hi in zip(first.tolist(), rows.tolist(), strict=True)]
    keys, count_K = np.unique(np.concatenate(sets), return_counts=True)
    divides = (count_K >= 2) & (count_K <= len(rows) - 2) & (keys != own)
    balance = np.abs(count_K - len(rows) / 2)
    keys = keys[divides][np.argsort(balance[divides], kind="stable")][:FEATURES]
    seen = np.array([np.isin(keys, had, assume_unique=True) for had in sets], dtype=np.float64).reshape(len(rows), -1)
    return seen, keys


def _contrast(case: _Case) -> tuple[tuple[int, int], tuple[int, int]]:
    """(times, rollouts) of the ending whose frequency differs most between rollouts with and without the clue."""
    without = np.zeros(len(case.rows), dtype=bool)
    without[case.without] = True
    kinds = int(case.after.max()) + 1
    size = [int(np.count_nonzero(part)) for part in (~without, without)]
    times = [np.bincount(case.after[part], minlength=kinds) for part in (~without, without)]
    ending = int(np.argmax(np.abs(times[0] / max(1, size[0]) - times[1] / max(1, size[1]))))
    return (int(times[0][ending]), size[0]), (int(times[1][ending]), size[1])
