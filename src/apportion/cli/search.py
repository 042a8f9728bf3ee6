"""``apportion models search``: actions chosen by a fitted credit model at inference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apportion.cli.output import emit_json, progress, remark, table
from apportion.errors import ConfigError, missing_extra

if TYPE_CHECKING:
    from apportion.train.search import Found

COLUMNS = ["answer", "success (95%)", "return (95%)", "tokens", "env steps", "scored steps", "scored tokens"]


def search(
    policy: Path = typer.Argument(help="Run of `apportion train`, or its policy folder."),
    model: Path = typer.Option(..., "--model", help="Folder of a fitted agentprm, value_head or archer."),
    env: str = typer.Option(None, "--env", help="Environment; default that of the run."),
    set_: list[str] = typer.Option([], "--set", "-s", help="A setting of the run as key=value: env_options.budget=3."),
    mode: str = typer.Option("both", "--mode", help="best-of-n, beam or both."),
    n: int = typer.Option(None, "--n", help="Whole rollouts of each task; default width x branch."),
    width: int = typer.Option(4, "--width", help="Rollouts that a beam keeps."),
    branch: int = typer.Option(4, "--branch", help="Actions that are sampled from each of them."),
    score: str = typer.Option("last", "--score", help="Promises of the steps to a score: last, min or mean."),
    tasks: int = typer.Option(64, "--tasks", help="Tasks, none of which training plays."),
    first: int = typer.Option(None, "--first", help="Seed of the first task."),
    seed: int = typer.Option(0, "--seed", help="Of the draws."),
    out: Path = typer.Option(None, "--out", "-o", help="Folder for search.json and trajectories.jsonl."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the search in --out, to equal numbers."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Search with a credit model: the best of N whole rollouts, and a beam over steps, at equal compute.

    Beside them stand one sample, a random one of the N, and the best by the true outcome, which is the ceiling.

    Example: apportion models search runs/mine --model prm/ --n 16 --width 4 --branch 4 --out runs/searched
    """
    try:
        from apportion.train.search import SearchSettings, run_config
        from apportion.train.search import search as run
    except ModuleNotFoundError as problem:
        if (problem.name or "").split(".")[0] == "apportion":
            raise
        raise missing_extra("searching", problem.name or "torch", "train") from problem
    if resume and out is None:
        raise ConfigError("a search is gone on with in its folder; give --out")
    begin = {} if first is None else {"first": first}
    settings = SearchSettings(mode=mode, n=n, width=width, branch=branch, score=score, tasks=tasks, seed=seed, **begin)
    with progress(f"searching {tasks} tasks", tasks) as advance:
        done = 0

        def told(now: int, _: int) -> None:
            nonlocal done
            advance(now - done)
            done = now

        found = run(run_config(policy, env=env, overrides=set_), model, settings, out=out, resume=resume, progress=told)
    if json:
        emit_json(
            {"schema": "apportion.models.search/1", "out": None if out is None else str(out), **found.to_mapping()}
        )
        return
    _show(found)
    if out is not None:
        remark(f"wrote {out}: search.json, trajectories.jsonl")


def _show(found: Found) -> None:
    rows = []
    for row in found.rows:
        told = [row.name]
        for mean, low, high in (row.success, row.reward):
            told.append(f"{mean:.3f} ({low:.3f} to {high:.3f})")
        costs = ("generated_tokens", "env_steps", "scored_steps", "scored_tokens")
        rows.append([*told, *(f"{row.costs[name]:,.0f}" for name in costs)])
    about = found.about
    table(f"{about['env']}, {about['policy']}, {about['model']}: {found.settings['tasks']} tasks", COLUMNS, rows)
    gaps = [
        [name, f"{mean:+.3f}", f"{low:+.3f} to {high:+.3f}"] for name, (mean, low, high) in found.differences.items()
    ]
    table("", ["difference of success, task by task", "mean", "95%"], gaps)
    if replayed := max(row.costs["replayed_steps"] for row in found.rows):
        remark(f"{replayed:,.0f} steps a task were made again to come back: the environment cannot copy its state")
    for note in found.notes:
        remark(note)
