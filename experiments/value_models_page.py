"""The tables of `value_models`."""

from __future__ import annotations

from typing import Any

import numpy as np
from value_models_world import ACTIONS, STATES, TASKS

from apportion.bench.intervals import t_interval

BUDGETS = (3, 9)
MODELS = ("value_head", "prm_td", "prm_mc")
MEAN = "mean of the games"
SHARES = ("within", "pairwise", "top1")


def told(values: list[float], *, share: bool = False) -> list[float]:
    """Mean, and the two ends of its interval; that of a share ends at 0 and 1."""
    low, high = t_interval(values, low=0.0, high=1.0) if share else t_interval(values)
    return [round(float(np.mean(values)), 4), round(low, 4), round(high, 4)]


def summary(runs: dict[str, dict[int, Any]]) -> dict[str, Any]:
    """Every number over seeds, by game and on average over games; and differences to samples, paired by seed."""
    seeds = sorted(next(iter(runs.values())))
    names = list(runs[next(iter(TASKS))][seeds[0]]["rows"])
    columns = ("error", "within", "pairwise", "top1", "words", "seconds")

    def values(game: str, name: str, column: str) -> list[float]:
        games = list(TASKS) if game == MEAN else [game]
        return [float(np.mean([runs[g][s]["rows"][name].get(column, 0.0) for g in games])) for s in seeds]

    tables = {
        g: {n: {c: told(values(g, n, c), share=c in SHARES) for c in columns} for n in names} for g in (*TASKS, MEAN)
    }
    gaps: dict[str, Any] = {}
    for k in BUDGETS:
        for kind in MODELS:
            for column in ("error", "pairwise"):
                pair = (values(MEAN, f"samples:{k}", column), values(MEAN, f"{kind}:{k}", column))
                gaps[f"{kind}:{k} - samples:{k}, {column}"] = told([b - a for a, b in zip(*pair, strict=True)])
    returns = {g: told([runs[g][s]["J"] for s in seeds]) for g in TASKS}
    return {"seeds": seeds, "tables": tables, "differences": gaps, "J": returns}


def markdown(found: dict[str, Any]) -> str:
    """The tables for people."""
    count = len(found["seeds"])
    lines = [
        "# Values by continuations and by fitted models, at equal generated words",
        "",
        f"Four games with exact truth, {count} policies each (seeds) with Student's 95% interval; {STATES} states of "
        f"the policy, up to {ACTIONS} sampled actions in each. `samples:K` asks K continuations behind every action; a "
        "model with `:K` learned from fresh episodes of as many words, with equal optimizer steps, and is free "
        "afterwards: for twice as many states samples cost twice as much, and a model nothing. `error`: mean absolute "
        "error of the value behind the action (`prm`: of Q), where the game goes on; `within`: share within 0.05; "
        "`pairwise`, `top1`: order of actions by exact Q, ties half, and the best of three or more. `exact` knows the "
        "value of the state that the action led to, and luck of that one step is its only error. Seconds: CPU of the "
        "fit.",
        "",
        "Returns of the policies: " + ", ".join(f"{g} {cell(x)}" for g, x in found["J"].items()) + ". Pairs of actions "
        "that differ, a seed: " + ", ".join(f"{g} {x:.0f}" for g, x in found["pairs"].items()) + ".",
    ]
    for game in (MEAN, *TASKS):
        lines += ["", f"## {game}", "", "| values from | error | within | pairwise | top1 | words | seconds |"]
        lines += ["|---|---|---|---|---|---|---|"]
        for name, row in found["tables"][game].items():
            told_ = [cell(row[c]) for c in ("error", "within", "pairwise", "top1")]
            cost = [f"{row['words'][0]:.0f}", f"{row['seconds'][0]:.1f}" if row["seconds"][0] else ""]
            lines.append(f"| {name} | " + " | ".join([*told_, *cost]) + " |")
    lines += ["", "## Differences, mean of the games, paired by seed", "", "| | mean, 95% interval |", "|---|---|"]
    lines += [f"| {name} | {cell(gap)} |" for name, gap in found["differences"].items()]
    lines += ["", "## What it says", "", verdict(found["differences"])]
    return "\n".join(lines) + "\n"


def verdict(gaps: dict[str, list[float]]) -> str:
    """What the intervals of the differences say, in words."""
    better: list[str] = []
    worse: list[str] = []
    open_: list[str] = []
    for name, (_, low, high) in gaps.items():
        who, what = name.split(" - ")[0], name.rpartition(", ")[2]
        low, high = (-high, -low) if what == "error" else (low, high)  # more is better
        (better if low > 0 else worse if high < 0 else open_).append(f"{who} ({what})")
    said = ["Against as many words of continuations, on the mean of the games:"]
    said += [f"{word} for {', '.join(names)}." for word, names in (
        ("better, with an interval beside 0,", better), ("worse, likewise,", worse), ("not told apart", open_),
    ) if names]  # fmt: skip
    return " ".join(said)


def cell(three: list[float]) -> str:
    """0.812 (0.780 to 0.843)"""
    return f"{three[0]:.3f} ({three[1]:.3f} to {three[2]:.3f})"
