"""Verdicts of a judge as numbers: what is asked, how votes become one number a unit, how numbers are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from apportion.asks import Answer, Judge, Verdict
from apportion.credit import Credit
from apportion.errors import ConfigError, DataError
from apportion.methods.groups import compared, one_of
from apportion.methods.moments import starts
from apportion.methods.notes import group_notes
from apportion.numerics import BoolArray, FloatArray, IntArray, seg_sum
from apportion.numerics.segments import SPREAD_TOLERANCE
from apportion.units import Units

CALLS = ("rollout", "unit")
SETS = ("intersection", "majority", "union")
AGGREGATES = ("mean", "median", *SETS)
WITHIN = ("group", "batch")
WEIGH = ("token", "unit", "rollout")
SCALES = ("std", "none")


def plan_verdicts(
    who: str,
    units: Units,
    *,
    template: str,
    votes: int,
    privileged: bool = False,
    calls: str = "rollout",
    judged_S: BoolArray | None = None,
) -> list[Judge]:
    """One `Judge` for each rollout, or with ``calls="unit"`` for each unit.

    Args:
        who: the method. units: a chain of units per trajectory.
        template, votes, privileged: see `Judge`.
        judged_S: units that are asked about, whole trajectories; default the valid ones.
    """
    one_of(who, CALLS, calls=calls)
    if votes < 1:
        raise ConfigError(f"{who}: votes is {votes}; ask for one opinion or more")
    place_S = starts(units)
    asks: list[Judge] = []
    for first, end in _judged(units, judged_S):
        traj, places = int(units.traj_of_S[first]), tuple(place_S[first:end])
        for focus in range(end - first) if calls == "unit" else (None,):
            asks.append(Judge(traj, places, template, votes, privileged, focus))
    return asks


def read_verdicts(
    who: str,
    units: Units,
    answers: Sequence[Answer],
    *,
    aggregate: str,
    votes: int,
    calls: str = "rollout",
    judged_S: BoolArray | None = None,
) -> tuple[FloatArray, dict[str, int]]:
    """One number for each unit, (S,), NaN where there is no verdict; and what a reader should know.

        x = (score - middle of the scale) / half of the scale      0 to 10: (s - 5) / 5;  good, neutral, bad: 1, 0, -1
        mean, median            of x over the votes that say something
        intersection            -1 where all of them have x < 0, else 0
        majority                -1 where at least half of them have, else 0
        union                   -1 where one of them has, else 0

    Args:
        answers: to `plan_verdicts`, in its order.
        aggregate: one of the above. votes: that were asked for.
        calls, judged_S: as there.

    Raises:
        DataError: a verdict has not one score for each unit.
    """
    one_of(who, AGGREGATES, aggregate=aggregate)
    said_S: list[list[float]] = [[] for _ in range(len(units))]
    wanted = off_scale = 0
    coming = iter(answers)
    for first, end in _judged(units, judged_S):
        for focus in range(end - first) if calls == "unit" else (None,):
            asked = range(first, end) if focus is None else (first + focus,)
            wanted += votes * len(asked)
            for verdict in next(coming).samples:
                for s, x in zip(asked, _centred(who, verdict, end - first, focus), strict=True):
                    if x is not None and abs(x) <= 1:
                        said_S[s].append(x)
                    off_scale += x is not None and abs(x) > 1
    value_S = np.array([_one(said, aggregate) for said in said_S], dtype=np.float64)
    got = sum(map(len, said_S))
    judged = units.valid_S if judged_S is None else judged_S
    counts = {
        "verdicts": got,
        "verdicts_missing": wanted - got - off_scale,
        "verdicts_off_scale": off_scale,
        "units_without_verdict": int(np.count_nonzero(judged & ~np.isfinite(value_S))),
    }
    return value_S, {name: count for name, count in counts.items() if count or name == "verdicts"}


def credit_of_verdicts(
    units: Units,
    value_S: FloatArray,
    *,
    weight: float,
    outcome_weight: float,
    mix: str,
    within: str,
    weigh: str,
    scale: str,
    ddof: int,
    epsilon: float,
    notes: dict[str, int],
) -> Credit:
    """Verdicts beside outcomes; a unit without a verdict is unknown and in no statistics.

        mix="before"    z(outcome_weight * R + weight * x)
        mix="after"     outcome_weight * z_group(R) + weight * z(x)

    where z_group compares rollouts in their group, and z compares units as `compared_units` says.

    Args:
        value_S: x, NaN where there is no verdict.
        weight, outcome_weight, mix: see the formula. With ``outcome_weight=0`` outcomes are not read.
        within, weigh, scale, ddof, epsilon: of z. notes: to go with the credit.
    """
    known_S = np.isfinite(value_S)
    verdict_S = np.where(known_S, value_S, 0.0)
    how: dict[str, Any] = {"within": within, "weigh": weigh, "scale": scale, "ddof": ddof, "epsilon": epsilon}
    if mix == "before":
        outcome_S = outcome_weight * units.outcome_N[units.traj_of_S]
        outcome_S, judge_S = compared_units(units, [outcome_S, weight * verdict_S], known_S, **how)
    else:
        outcome_N = compared(
            units.outcome_N, units.group_of_N, where=units.valid_N, scale=scale, ddof=ddof, epsilon=epsilon
        )
        outcome_S = outcome_weight * outcome_N[units.traj_of_S]
        judge_S = weight * compared_units(units, [verdict_S], known_S, **how)[0]
    parts = {"outcome": outcome_S, "judge": judge_S} if outcome_weight else {"judge": judge_S}
    groups = group_notes(units) if outcome_weight else {}
    return Credit(np.sum(list(parts.values()), axis=0), units, known_S=known_S, parts=parts, notes={**groups, **notes})


def compared_units(
    units: Units,
    parts: Sequence[FloatArray],
    known_S: BoolArray,
    *,
    within: str,
    weigh: str,
    scale: str,
    ddof: int,
    epsilon: float,
) -> list[FloatArray]:
    """Each part minus its mean, over the std of the sum of all parts; what is unknown neither counts nor gets a value.

        mean = sum w x / W    std = sqrt(sum w (x - mean)^2 / (W - ddof)) + epsilon    W = sum w, over a set of units

    Args:
        parts: summands, each (S,).
        within: a set is the "group" of a task, or the whole "batch".
        weigh: w is the "token" count of a unit, 1 for each "unit", or its share of its "rollout"'s tokens, so that a
            rollout counts once, however long.
        scale: "std", or "none" only subtracts the mean.

    Returns:
        Arrays as ``parts``; all exactly 0 in a set whose sum has no spread.
    """
    set_S = units.group_of_S if within == "group" else np.zeros(len(units), dtype=np.int64)
    weight_S = np.where(known_S, 1 if weigh == "unit" else units.tokens_S, 0).astype(np.float64)
    if weigh == "rollout":
        total_S = seg_sum(weight_S, units.traj_of_S, n=len(units.group_of_N))[units.traj_of_S]
        weight_S = np.divide(weight_S, total_S, out=np.zeros(len(units)), where=total_S > 0)
    count = int(set_S.max(initial=-1)) + 1
    total_X = seg_sum(weight_S, set_S, n=count)
    moved = [np.where(known_S, x - _mean(x, weight_S, set_S, total_X)[set_S], 0.0) for x in parts]
    summed_S, level_S = np.sum(parts, axis=0), np.sum(moved, axis=0)
    free_X = np.maximum(total_X - ddof, 0.0)
    square_X = seg_sum(weight_S * level_S**2, set_S, n=count)
    std_X = np.sqrt(np.divide(square_X, free_X, out=np.zeros(count), where=free_X > 0))
    largest_X = np.zeros(count)
    np.maximum.at(largest_X, set_S, np.where(weight_S > 0, np.abs(summed_S), 0.0))
    divisor_X = std_X + epsilon if scale == "std" else np.ones(count)
    divisor_X[std_X <= SPREAD_TOLERANCE * largest_X] = np.inf
    return [x / divisor_X[set_S] + 0.0 for x in moved]


def _mean(x_S: FloatArray, weight_S: FloatArray, set_S: IntArray, total_X: FloatArray) -> FloatArray:
    sum_X = seg_sum(weight_S * x_S, set_S, n=len(total_X))
    return np.divide(sum_X, total_X, out=np.zeros(len(total_X)), where=total_X > 0)


def _judged(units: Units, judged_S: BoolArray | None) -> list[tuple[int, int]]:
    """First unit of each rollout that is judged, and the one after its last."""
    judged = units.valid_S if judged_S is None else judged_S
    first = np.flatnonzero(np.append(True, units.traj_of_S[1:] != units.traj_of_S[:-1])[: len(units)])
    ends = np.append(first[1:], len(units))[: len(first)]
    return [(a, b) for a, b in zip(first.tolist(), ends.tolist(), strict=True) if judged[a]]


def _centred(who: str, verdict: Verdict, size: int, focus: int | None) -> list[float | None]:
    """Scores of one opinion on the scale from -1 to 1."""
    if len(verdict.scores) != size:
        raise DataError(
            f"{who}: a verdict has {len(verdict.scores)} scores for {size} units; give one for each, None = no verdict"
        )
    low, high = verdict.scale
    scores = verdict.scores if focus is None else verdict.scores[focus : focus + 1]
    return [None if x is None else (x - (low + high) / 2) / ((high - low) / 2) for x in scores]


def _one(said: list[float], aggregate: str) -> float:
    """What several opinions on one unit come to; NaN of none."""
    if not said:
        return float("nan")
    if aggregate in ("mean", "median"):
        return float(np.mean(said) if aggregate == "mean" else np.median(said))
    wrong = sum(x < 0 for x in said)
    least = {"intersection": len(said), "majority": len(said) / 2, "union": 1}[aggregate]
    return -1.0 if wrong >= least else 0.0
