"""The tables of `value_models`."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments import markdown as md
from experiments.markdown import cell
from experiments.means import interval, paired, side
from experiments.value_models_world import ACTIONS, STATES, TASKS

BUDGETS = (3, 9)
MODELS = ("value_head", "prm_td", "prm_mc")
MEAN = "mean of the games"
SHARES = ("within", "pairwise", "top1")


def summary(runs: dict[str, dict[int, Any]]) -> dict[str, Any]:
    """Every number over seeds, by game and on average over games; and differences to samples, paired by seed."""
    seeds = sorted(next(iter(runs.values())))
    names = list(runs[next(iter(TASKS))][seeds[0]]["rows"])
    columns = ("error", "within", "pairwise", "top1", "words", "seconds")

    def values(game: str, name: str, column: str) -> list[float]:
        games = list(TASKS) if game == MEAN else [game]
        return [float(np.mean([runs[g][s]["rows"][name].get(column, 0.0) for g in games])) for s in seeds]

    tables = {
        g: {n: {c: interval(values(g, n, c), digits=4, share=c in SHARES) for c in columns} for n in names}
        for g in (*TASKS, MEAN)
    }
    gaps: dict[str, Any] = {}
    for k in BUDGETS:
        for kind in MODELS:
            for column in ("error", "pairwise"):
                pair = (values(MEAN, f"{kind}:{k}", column), values(MEAN, f"samples:{k}", column))
                gaps[f"{kind}:{k} - samples:{k}, {column}"] = paired(*pair, digits=4)
    returns = {g: interval([runs[g][s]["J"] for s in seeds], digits=4) for g in TASKS}
    return {"seeds": seeds, "tables": tables, "differences": gaps, "J": returns}


def markdown(found: dict[str, Any]) -> str:
    """The page for people."""
    tables = []
    for game in (MEAN, *TASKS):
        rows = []
        for name, row in found["tables"][game].items():
            cost = [f"{row['words'][0]:.0f}", f"{row['seconds'][0]:.1f}" if row["seconds"][0] else ""]
            rows.append([name, *(cell(row[c]) for c in ("error", "within", "pairwise", "top1")), *cost])
        head = ["values from", "error", "within", "pairwise", "top1", "words", "seconds"]
        tables += [f"## {game}", md.table(head, rows)]
    return md.document(
        "# Values by continuations and by fitted models, at equal generated words",
        f"Four games with exact truth, {len(found['seeds'])} policies each (seeds) with Student's 95% interval; "
        f"{STATES} states of the policy, up to {ACTIONS} sampled actions in each. `samples:K` asks K continuations "
        "behind every action; a model with `:K` learned from fresh episodes of as many words, with equal optimizer "
        "steps, and is free afterwards: for twice as many states samples cost twice as much, and a model nothing. "
        "`error`: mean absolute error of the value behind the action (`prm`: of Q), where the game goes on; `within`:"
        " share within 0.05; `pairwise`, `top1`: order of actions by exact Q, ties half, and the best of three or "
        "more. `exact` knows the value of the state that the action led to, and luck of that one step is its only "
        "error. Seconds: CPU of the fit.",
        f"Returns of the policies: {', '.join(f'{g} {cell(x)}' for g, x in found['J'].items())}. Pairs of actions that "
        f"differ, a seed: {', '.join(f'{g} {x:.0f}' for g, x in found['pairs'].items())}.",
        *tables,
        "## Differences, mean of the games, paired by seed",
        md.table(
            ["difference", "mean, 95% interval"], [[name, cell(gap)] for name, gap in found["differences"].items()]
        ),
        "## What it says",
        verdict(found["differences"]),
    )


def verdict(gaps: dict[str, list[float]]) -> str:
    """What the intervals of the differences say, in words."""
    by_side: dict[int, list[str]] = {1: [], -1: [], 0: []}
    for name, gap in gaps.items():
        who, what = name.split(" - ")[0], name.rpartition(", ")[2]
        by_side[-side(gap) if what == "error" else side(gap)].append(f"{who} ({what})")  # less of an error is better
    words = {1: "better, with an interval beside 0,", -1: "worse, likewise,", 0: "not told apart"}
    said = [f"{words[k]} for {', '.join(names)}." for k, names in by_side.items() if names]
    return " ".join(["Against as many words of continuations, on the mean of the games:", *said])
