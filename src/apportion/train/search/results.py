"""What a search found and what it cost, from one record for each task: means over tasks with 95% intervals.

A record holds what was played, so every row and control comes from the same rollouts:

    {"task": 1000000, "samples": [{"success", "return", "tokens", "steps", "scored_tokens", "last", "min", "mean"}, …],
     "beam": None, or the same of its answer with all that it cost, and "scored_steps", "replayed"}
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from apportion.numerics import Array, FloatArray
from apportion.train.search.settings import SCORES, SearchSettings

RESAMPLES = 2000
Record = Mapping[str, Any]
COSTS = ("generated_tokens", "env_steps", "replayed_steps", "scored_steps", "scored_tokens")


@dataclass(frozen=True, slots=True)
class Row:
    """One way to answer, as means over tasks.

    Attributes:
        name: for people. success, reward: mean and the ends of its interval; reward is the return.
        costs: by name of `COSTS`, for each task.
    """

    name: str
    success: tuple[float, float, float]
    reward: tuple[float, float, float]
    costs: dict[str, float]


@dataclass(slots=True)
class Found:
    """What a search found.

    Attributes:
        settings: as they were. about: policy, model and environment. rows: see `Row`.
        differences: of success, paired by task, by name. notes: what to know about them.
    """

    settings: dict[str, Any]
    about: dict[str, Any]
    rows: list[Row] = field(default_factory=list)
    differences: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


Pick = Callable[[Record], Sequence[tuple[float, Mapping[str, Any]]]]
"""A record to the answers that may be given, with their probabilities."""


def found(records: Sequence[Record], settings: SearchSettings, about: Mapping[str, Any]) -> Found:
    """The rows and differences of some tasks."""
    n, score = settings.rollouts, settings.score
    out = Found(settings.to_mapping(), dict(about))
    picks: dict[str, tuple[Pick, Callable[[Record], Sequence[Any]], bool]] = {}

    def add(name: str, pick: Pick, used: Callable[[Record], Sequence[Any]], scored: bool) -> None:
        picks[name] = pick, used, scored
        out.rows.append(_row(name, records, pick, used, scored))

    def first(record: Record) -> Sequence[Any]:
        return list(record["samples"][:n])

    add("one sample", lambda r: [(1.0, r["samples"][0])], lambda r: r["samples"][:1], False)
    any_of = f"best of {n}: at random"
    add(any_of, lambda r: [(1 / n, s) for s in first(r)], first, False)
    for name in (score, *(other for other in SCORES if other != score)):
        add(f"best of {n}: {name} promise", _best_by(first, name), first, True)
    add(f"best of {n}: true outcome", _best_by(first, "return"), first, False)
    chosen = f"best of {n}: {score} promise"
    pairs = [(chosen, any_of)]
    if settings.beams:
        beam = f"beam {settings.width} x {settings.branch}"
        add(beam, lambda r: [(1.0, r["beam"])], lambda r: [r["beam"]], True)
        name = "best at the beam's tokens"
        add(f"{name}: {score} promise", _best_by(within_tokens, score), within_tokens, True)
        add(f"{name}: true outcome", _best_by(within_tokens, "return"), within_tokens, False)
        pairs += [(beam, "one sample"), (beam, f"{name}: {score} promise")]
    for a, b in pairs:
        gap = _expected(records, picks[a][0], "success") - _expected(records, picks[b][0], "success")
        out.differences[f"{a} - {b}"] = resampled(gap)
    return out


def within_tokens(record: Record) -> Sequence[Any]:
    """The first samples whose tokens together are no more than the beam's; at least one."""
    spent = np.cumsum([s["tokens"] for s in record["samples"]])
    return list(record["samples"][: max(1, int(np.searchsorted(spent, record["beam"]["tokens"], side="right")))])


def resampled(value_R: Array) -> tuple[float, float, float]:
    """Mean over tasks and its 95% interval, by drawing tasks anew."""
    value = np.asarray(value_R, dtype=np.float64)
    rng = np.random.default_rng(0)
    means = value[rng.integers(len(value), size=(RESAMPLES, len(value)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(value.mean()), float(low), float(high)


def wilson(hits: float, count: int) -> tuple[float, float, float]:
    """A share and its 95% interval by Wilson, which is none too narrow where all tasks end alike."""
    z, p = 1.959964, hits / count
    middle, half = p + z * z / (2 * count), z * math.sqrt(p * (1 - p) / count + z * z / (4 * count**2))
    down = 1 + z * z / count
    return p, max(0.0, (middle - half) / down), min(1.0, (middle + half) / down)


def _best_by(of: Callable[[Record], Sequence[Any]], name: str) -> Pick:
    """The first of the highest; by the true outcome, a success before everything."""

    def pick(record: Record) -> Sequence[tuple[float, Mapping[str, Any]]]:
        def height(sample: Any) -> tuple[float, float]:
            return (float(sample["success"]) if name == "return" else 0.0, sample[name])

        return [(1.0, max(of(record), key=height))]

    return pick


def _expected(records: Sequence[Record], pick: Pick, what: str) -> FloatArray:
    return np.array([sum(p * float(s[what]) for p, s in pick(r)) for r in records])


def _row(
    name: str, records: Sequence[Record], pick: Pick, used: Callable[[Record], Sequence[Any]], scored: bool
) -> Row:
    success = _expected(records, pick, "success")
    whole = bool(np.isin(success, (0.0, 1.0)).all())
    paid = dict.fromkeys(COSTS, 0.0)
    for record in records:
        for sample in used(record):
            paid["generated_tokens"] += sample["tokens"]
            paid["env_steps"] += sample["steps"]
            paid["replayed_steps"] += sample.get("replayed", 0)
            paid["scored_steps"] += sample.get("scored_steps", sample["steps"]) * scored
            paid["scored_tokens"] += sample["scored_tokens"] * scored
    return Row(
        name,
        wilson(float(success.sum()), len(records)) if whole else resampled(success),
        resampled(_expected(records, pick, "return")),
        {cost: total / len(records) for cost, total in paid.items()},
    )
