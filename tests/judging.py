"""Verdicts by rule, for tests of the methods that ask a judge."""

from __future__ import annotations

import random
from types import SimpleNamespace

from apportion.asks import Answer, Verdict, samples_of
from apportion.methods import get
from apportion.units import Units

SCALES = ((-1.0, 1.0), (0.0, 10.0), (1.0, 5.0))


def wrong(*flags: int | None) -> Verdict:
    """A set of wrong steps, as flags."""
    return Verdict(tuple(None if flag is None else -float(flag) for flag in flags))


def verdicts(method: str, units: Units, rng: random.Random, **params) -> list[Answer]:
    """Random answers to the plan: some opinions missing, some units without a verdict, one scale for all."""
    spec = get(method)
    scale = rng.choice(SCALES)
    out = []
    for ask in spec.plan(units, **spec.bind(params)):
        came = [_opinion(ask, scale, rng) for _ in range(samples_of(ask)) if rng.random() < 0.85]
        out.append(Answer(ask, tuple(came), failed=samples_of(ask) - len(came)))
    return out


def _opinion(ask, scale, rng):
    low, high = scale
    drawn = [None if rng.random() < 0.15 else rng.choice((low, high, (low + high) / 2, 0.8 * high)) for _ in ask.units]
    if ask.focus is not None:
        drawn = [x if k == ask.focus else None for k, x in enumerate(drawn)]
    return Verdict(tuple(drawn), scale=scale)


def slow_numbers(units: Units, answers: list[Answer], aggregate: str) -> list[float | None]:
    """One number per unit from the answers, None without a verdict; shares no code with ours."""
    votes: dict[tuple[int, int], list[float]] = {}
    for answer in answers:
        for verdict in answer.samples:
            low, high = verdict.scale
            for k, score in enumerate(verdict.scores):
                if score is not None and (answer.ask.focus is None or answer.ask.focus == k):
                    votes.setdefault((answer.ask.traj, k), []).append(2 * (score - low) / (high - low) - 1)
    out, seen = [], {}
    for n in units.traj_of_S.tolist():
        k = seen.get(n, 0)
        seen[n] = k + 1
        out.append(_aggregated(votes.get((n, k), []), aggregate))
    return out


def _aggregated(xs, aggregate):
    if not xs:
        return None
    if aggregate == "mean":
        return sum(xs) / len(xs)
    if aggregate == "median":
        xs = sorted(xs)
        middle = len(xs) // 2
        return xs[middle] if len(xs) % 2 else (xs[middle - 1] + xs[middle]) / 2
    found = [x for x in xs if x < 0]
    hit = {
        "intersection": len(found) == len(xs),
        "majority": 2 * len(found) >= len(xs) and found,
        "union": bool(found),
    }[aggregate]
    return -1.0 if hit else 0.0


def slow_standard(rows: list[SimpleNamespace], *, weigh, scale, ddof, epsilon) -> None:
    """Fill ``z`` of the rows of one set (x, tokens, rollout), by repeating each value as often as it counts."""
    if weigh == "rollout":
        size = {}
        for row in rows:
            size[row.rollout] = size.get(row.rollout, 0) + row.tokens
        weights = [row.tokens / size[row.rollout] if size[row.rollout] else 0.0 for row in rows]
    else:
        weights = [row.tokens if weigh == "token" else 1 for row in rows]
    total = sum(weights)
    mean = sum(w * row.x for w, row in zip(weights, rows, strict=True)) / total if total else 0.0
    square = sum(w * (row.x - mean) ** 2 for w, row in zip(weights, rows, strict=True))
    std = (square / (total - ddof)) ** 0.5 if total > ddof else 0.0
    largest = max((abs(row.x) for w, row in zip(weights, rows, strict=True) if w), default=0.0)
    for row in rows:
        if std <= 1e-9 * largest:
            row.z = 0.0
        else:
            row.z = (row.x - mean) / (std + epsilon if scale == "std" else 1.0)
