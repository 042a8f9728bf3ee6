"""From the records of runs to the numbers of the page: per environment, over environments, and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments import means
from experiments.learning.plan import ARMS, World
from experiments.learning.stats import improvement, iqm
from experiments.stored import read

POINTS = 12
"""Spans of equal length in generated tokens that a curve is averaged in."""

BASES = ("grpo", "gigpo", "rloo")
"""Arms that the others are compared with."""

Record = Mapping[str, Any]
Records = Mapping[tuple[str, int], Record]
"""Runs of one environment by arm and seed."""


def read_store(store: Path) -> dict[str, dict[tuple[str, int], Record]]:
    """Every record there is, by environment."""
    out: dict[str, dict[tuple[str, int], Record]] = {}
    for path in sorted(store.glob("*/*.json")):
        record = read(path)
        out.setdefault(record["env"], {})[record["arm"], record["seed"]] = record
    return out


def complete(records: Records, arms: Sequence[str]) -> list[int]:
    """Seeds that every one of the arms has."""
    seeds = sorted({seed for _, seed in records})
    return [seed for seed in seeds if all((arm, seed) in records for arm in arms)]


def balanced(records: Records) -> tuple[list[str], list[int]]:
    """Arms and seeds of the largest full table: an arm that ran on few seeds does not cost the others theirs."""
    present = [arm for arm in ARMS if any(a == arm for a, _ in records)]
    tables = []
    for few in present:
        seeds = {seed for arm, seed in records if arm == few}
        tables.append([arm for arm in present if all((arm, seed) in records for seed in seeds)])
    arms = max(tables, key=lambda arms: len(arms) * len(complete(records, arms)))
    return arms, complete(records, arms)


def curve(record: Record, key: str, points: int = POINTS) -> list[float]:
    """Mean of a column in equal spans of the budget; a span without an iteration is interpolated."""
    tokens = np.array(record["curve"]["tokens"], dtype=np.float64)
    values = np.array(record["curve"][key], dtype=np.float64)
    points = min(points, len(tokens))
    middle = (tokens + np.append(0.0, tokens[:-1])) / 2
    place = (middle / tokens[-1] * points).astype(np.int64)
    count = np.bincount(place, minlength=points)
    mean = np.bincount(place, weights=values, minlength=points) / np.maximum(count, 1)
    return [float(x) for x in np.interp(np.arange(points), np.flatnonzero(count), mean[count > 0])]


def score(world: World, record: Record, when: str = "after", kind: str = "sampled") -> float:
    """Of the policy at the end, as a share of the best: exact where the game is a table, else on held-out tasks."""
    key = world.score if world.table else f"{world.score}_{kind}"
    return float(record[when][key]) / world.best


def area(world: World, record: Record) -> float:
    """Score while training, sampled, averaged over the generated tokens; as a share of the best."""
    tokens = np.diff([0, *record["curve"]["tokens"]])
    return float(np.average(record["curve"][world.score], weights=tokens)) / world.best


def per_world(world: World, records: Records) -> dict[str, Any]:
    """Means with Student's interval over seeds; differences to the arms of `BASES` are paired by seed."""
    arms, seeds = balanced(records)
    out: dict[str, Any] = {"seeds": seeds, "arms": {}}
    for arm in arms:
        runs = [records[arm, seed] for seed in seeds]
        row: dict[str, Any] = {}
        for key, of in (("area", area), ("final", score)):
            got = [of(world, r) for r in runs]
            row[key] = interval(got)
            for other in (o for o in BASES if o in arms and o != arm):
                base = [of(world, records[other, s]) for s in seeds]
                row[f"{key}_over_{other}"] = interval([x - y for x, y in zip(got, base, strict=True)])
        if not world.table:
            row["greedy"] = interval([score(world, r, kind="greedy") for r in runs])
        row["seconds"] = float(np.mean([r["seconds"]["iteration"] for r in runs]))
        row["credit_share"] = float(np.mean([r["seconds"]["credit"] / r["seconds"]["iteration"] for r in runs]))
        row["tokens"] = float(np.mean([r["generated_tokens"] for r in runs]))
        for key in ("recurring", "trained"):
            first, last = zip(*[_ends(r, key) for r in runs], strict=True)
            whole = [float(np.mean(r["curve"][key])) for r in runs]
            row[key] = {"first": interval(first), "last": interval(last), "mean": interval(whole)}
        out["arms"][arm] = row
    out["before"] = score(world, records["grpo", seeds[0]], "before")
    out["commits"] = sorted({records[arm, seed]["commit"] for arm in arms for seed in seeds})
    return out


def curves(world: World, records: Records) -> dict[str, dict[str, list[float]]]:
    """Score by generated tokens, mean and Student's interval over seeds."""
    out: dict[str, dict[str, list[float]]] = {}
    arms, seeds = balanced(records)
    for arm in arms:
        rows = np.array([curve(records[arm, s], world.score) for s in seeds]) / world.best
        band = [interval(column) for column in rows.T.tolist()]
        width = world.tokens / rows.shape[1]
        out[arm] = {
            "tokens": [width * (k + 0.5) for k in range(rows.shape[1])],
            "mean": [b[0] for b in band], "low": [b[1] for b in band], "high": [b[2] for b in band],
        }  # fmt: skip
    return out


def over_worlds(worlds: Mapping[str, World], store: Mapping[str, Records], arms: Sequence[str]) -> dict[str, Any]:
    """IQM of area and final score, and who beats whom, over all environments."""
    out: dict[str, Any] = {"arms": list(arms)}
    for key, of in (("area", area), ("final", score)):
        scores = {
            arm: {
                name: [of(worlds[name], records[arm, s]) for s in complete(records, arms)]
                for name, records in store.items()
            }
            for arm in arms
        }
        out[key] = {
            "iqm": {arm: iqm(list(rows.values())) for arm, rows in scores.items()},
            "better": {x: {y: improvement(scores[x], scores[y]) for y in arms if y != x} for x in arms},
        }
    return out


def interval(values: Sequence[float]) -> list[float]:
    """Mean and Student's 95% interval; of one run, its value three times."""
    if len(values) < 2:
        return [float(values[0])] * 3
    return means.interval(values)


def _ends(record: Record, key: str) -> tuple[float, float]:
    """Mean over the first and over the last fifth of a run."""
    values = record["curve"][key]
    n = max(1, len(values) // 5)
    return float(np.mean(values[:n])), float(np.mean(values[-n:]))
