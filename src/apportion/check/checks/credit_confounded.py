"""Credit that goes with a length, a place or a phrase more than with the outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from itertools import pairwise

import numpy as np

from apportion.check.findings import SHOWN, Finding, Yields
from apportion.check.moves import short, step_name, steps_of
from apportion.check.registry import register
from apportion.check.sampling import evenly
from apportion.check.significance import rank_correlation, ranks
from apportion.credit import Credit
from apportion.numerics import Array, BoolArray, FloatArray, seg_mean, seg_sum

STRONG, MARGIN = 0.5, 0.1
"""Rank correlation from which on it counts, and by how much it must exceed that with the outcome."""
LEAST = 20
"""Rollouts, or units, below which nothing is said."""
UNITS, GRAMS = 20_000, 200
"""Units and phrases that are looked at."""
SURE = 4.5
"""Standard errors that the correlation with a phrase must be above 0: one of 200 phrases gets to 3.5 by chance."""


@register("credit-confounded", on="credit")
def credit_confounded(credit: Credit) -> Yields:
    """Credit whose rank correlation with length, place in the rollout or a phrase is strong, and with the outcome
    weaker.
    """
    units = credit.units
    counted_S = credit.weight_S & (units.tokens_S > 0)
    if not counted_S.any() or not credit.advantage_S[counted_S].any():
        return
    outcome_N = _centred(credit, units.outcome_N)
    yield from _length(credit, counted_S, outcome_N)
    own = np.flatnonzero(counted_S)
    yield from _place(credit, own, outcome_N)
    yield from _phrase(credit, own[evenly(len(own), UNITS)], outcome_N)


def _length(credit: Credit, counted_S: BoolArray, outcome_N: FloatArray) -> Yields:
    units = credit.units
    n = len(units.group_of_N)
    tokens_N = seg_sum(np.where(counted_S, units.tokens_S, 0).astype(np.float64), units.traj_of_S, n=n)
    use = np.flatnonzero(units.valid_N & (tokens_N > 0))
    if len(use) < LEAST:
        return
    mass_N = seg_sum(np.where(counted_S, credit.advantage_S * units.tokens_S, 0.0), units.traj_of_S, n=n)
    per_token = mass_N[use] / tokens_N[use]
    length = _centred(credit, tokens_N)[use]
    names = units.batch.names()
    yield from _told("length", rank_correlation(per_token, length),
                     rank_correlation(per_token, outcome_N[use]), len(use),
                     [names[use[k]] for k in np.argsort(-length, kind="stable")[:SHOWN].tolist()],
                     "the mean credit of a rollout goes with its number of tokens",
                     "look for a division by length or a sum over steps; compare with `scale='none'`, and with a loss "
                     "that does not average over tokens")  # fmt: skip


def _place(credit: Credit, own: Array, outcome_N: FloatArray) -> Yields:
    units = credit.units
    size_N = np.bincount(units.traj_of_S, minlength=len(units.group_of_N))
    first = np.searchsorted(units.traj_of_S, units.traj_of_S[own])
    use = size_N[units.traj_of_S[own]] >= 3
    if np.count_nonzero(use) < LEAST:
        return
    place = ((own - first) / np.maximum(size_N[units.traj_of_S[own]] - 1, 1))[use]
    value = credit.advantage_S[own][use]
    of_outcome = rank_correlation(value, outcome_N[units.traj_of_S[own]][use])
    yield from _told("place", rank_correlation(value, place), of_outcome, int(np.count_nonzero(use)),
                     _steps(credit, own[use][np.argsort(-np.abs(value), kind="stable")]),
                     "the credit of a unit goes with its place in the rollout",
                     "look for discounting by absolute position, a value function that knows the time only, or rewards "
                     "copied onto every step")  # fmt: skip


def _phrase(credit: Credit, own: Array, outcome_N: FloatArray) -> Yields:
    if len(own) < LEAST or credit.units.level == "token":
        return
    value = credit.advantage_S[own]
    held = _features(credit, own)
    found = {phrase: _rank_biserial(value, _mask(at, len(own))) for phrase, at in held.items()}
    clear = {
        phrase: r
        for phrase, r in found.items()
        if abs(r) * np.sqrt(3 * len(held[phrase]) * (1 - len(held[phrase]) / len(own))) >= SURE
    }
    if not clear:
        return
    best = max(clear, key=lambda phrase: (abs(clear[phrase]), str(phrase)))
    won = outcome_N[credit.units.traj_of_S[own]] > 0
    at = held[best][np.argsort(-np.abs(value[held[best]]), kind="stable")]
    yield from _told("phrase", clear[best], _rank_biserial(value, won), len(own), _steps(credit, own[at]),
                     f"the credit of a unit goes with {short(best)!r} in it",
                     "see whether the judge or the reward model pays for the wording; leave the phrase out of a list "
                     "that gives a bonus", phrase=short(best), units=len(held[best]))  # fmt: skip


def _mask(at: Array, size: int) -> BoolArray:
    out = np.zeros(size, dtype=bool)
    out[at] = True
    return out


def _rank_biserial(value: Array, has: BoolArray) -> float:
    """How much more often a unit that has it lies above one that has not than below: 1 always, 0 no difference."""
    n, with_it = len(value), int(np.count_nonzero(has))
    if with_it in (0, n):
        return 0.0
    rank = ranks(value)
    return float(2 * (rank[has].mean() - rank[~has].mean()) / n)


def _features(credit: Credit, own: Array) -> dict[Hashable, Array]:
    """Words and pairs of them (ids where there is no text) by the units that hold them; neither rare nor everywhere."""
    units = credit.units
    steps = steps_of(units.batch)
    where: dict[Hashable, set[int]] = {}
    seen: Counter[Hashable] = Counter()
    for k, s in enumerate(own.tolist()):
        step = steps[int(units.step_of_S[s])]
        items: list[str] = (
            step.action.lower().split()
            if step.action
            else [f"id {i}" for i in (step.ids if step.ids is not None else ())]
        )
        parts = set(items[:400])
        parts |= {f"{a} {b}" for a, b in pairwise(items[:400])}
        seen.update(parts)
        for part in parts:
            where.setdefault(part, set()).add(k)
    fit = [part for part, times in seen.most_common() if 0.05 * len(own) <= times <= 0.95 * len(own)][:GRAMS]
    return {part: np.array(sorted(where[part]), dtype=np.int64) for part in fit}


def _told(
    what: str, found: float, outcome: float, size: int, where: list[str], sentence: str, remedy: str, **more: object
) -> Yields:
    if abs(found) < STRONG or abs(found) <= abs(outcome) + MARGIN:
        return
    yield Finding(
        f"credit-confounded/{what}",
        "warning",
        f"{sentence} (rank correlation {found:+.2f}) more than with the outcome ({outcome:+.2f})",
        remedy,
        {"correlation": found, "with_outcome": outcome, "of": size, "share": abs(found), **more},
        tuple(where),
    )


def _steps(credit: Credit, units: Array) -> list[str]:
    """The steps of the first few units."""
    return [step_name(credit.units.batch, int(credit.units.step_of_S[s])) for s in units[:SHOWN].tolist()]


def _centred(credit: Credit, x_N: Array) -> FloatArray:
    """Against the mean of the rollouts of the group that count."""
    units = credit.units
    x = np.where(units.valid_N, x_N, 0.0).astype(np.float64)
    mean_G = seg_mean(x, units.group_of_N, where=units.valid_N, n=int(units.group_of_N.max(initial=-1)) + 1)
    return np.where(units.valid_N, x - mean_G[units.group_of_N], 0.0)
