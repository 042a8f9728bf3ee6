"""``apportion bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from apportion.cli.output import emit_json, progress, remark, table

SHOWN = ("cosine", "cosine_mean", "snr", "rank", "sign", "top1", "bias", "variance")
PAID = ("rollouts", "decisions", "calls")
SHORT = {"cosine_mean": "of mean", "decisions": "decided"}


def bench(
    methods: str = typer.Option("all", "--methods", "-m", help="Names or expressions with commas between, or all."),
    tasks: str = typer.Option("all", "--tasks", "-t", help="Tasks with commas between, all, or plain (no noise)."),
    budget: int = typer.Option(2000, "--budget", "-b", min=1, help="Decisions and reward requests per seed."),
    seeds: int = typer.Option(20, "--seeds", min=2, help="Independent repetitions, for the intervals."),
    n: int = typer.Option(8, "--group", min=1, help="Rollouts of one start state."),
    policy: str = typer.Option("weak", "--policy", help="weak or strong: how good the policy is already."),
    state: str = typer.Option("", "--state", help="Rule for state keys, such as normalised; default the texts."),
    out: Path = typer.Option(Path("runs/bench"), "--out", "-o", help="Folder for cells, bench.json and bench.html."),
    jobs: int = typer.Option(1, "--jobs", "-j", min=1, max=2, help="Processes."),
    quick: bool = typer.Option(False, "--quick", help="Four seeds and a budget of 500 at most: a look, no result."),
    json: bool = typer.Option(False, "--json", help="The whole document on stdout."),
) -> None:
    """Every method on games whose advantages are known exactly, at equal cost, with 95% intervals.

    A run that was stopped goes on where it was. Methods that cannot run on a task are listed with the reason.

    Example: apportion bench --methods all --tasks all --budget 2000
    """
    from apportion.bench.compare import Plan, compare, every_method, every_task, page
    from apportion.bench.tasks import task_names

    plan = Plan(
        budget=min(budget, 500) if quick else budget,
        seeds=min(seeds, 4) if quick else seeds,
        n=n,
        policy=policy,
        state=state or None,
    )
    which = {"all": every_task(), "plain": list(task_names())}.get(tasks) or _listed(tasks)
    whom = every_method() if methods == "all" else _listed(methods)
    with progress("bench", len(whom) * len(which)) as advance:
        before = [0]

        def told(done: int, total: int, what: str) -> None:
            advance(done - before[0], what)
            before[0] = done

        document = compare(whom, which, plan, out=out, jobs=jobs, told=told)
    html = out / "bench.html"
    html.write_text(page(document), encoding="utf-8")
    if json:
        emit_json(document)
        return
    _show(document, which)
    remark(f"page: {html}   numbers: {out / 'bench.json'}   a file per cell: {out / 'cells'}")


def _listed(text: str) -> list[str]:
    """Names with commas between; a comma inside brackets belongs to the expression."""
    out, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth == 0:
            out.append("")
        else:
            out[-1] += sign
    return [name.strip() for name in out if name.strip()]


def _show(document: dict[str, Any], tasks: list[str]) -> None:
    from apportion.bench.compare import dearer, number, ranked, reasons

    for name in tasks:
        cells = [cell for cell in document["cells"] if cell["task"] == name]
        rows = []
        for cell in ranked(cells):
            told = [_cell(cell["metrics"][key]) for key in SHOWN]
            rows.append([cell["method"], *told, *(number(cell["cost"][key][0], 0) for key in PAID)])
        table(
            f"{name}: expected return of the policy {cells[0]['J']:.3f}",
            ["method", *(SHORT.get(key, key) for key in (*SHOWN, *PAID))],
            rows,
        )
    remark(
        "cosine, of one batch's policy gradient with the exact one, is the yardstick; docs/bench.md explains the rest"
    )
    for sentence in dearer(document["cells"]):
        remark(sentence)
    for (method, reason), where in reasons(document["cells"]).items():
        remark(f"{method} did not run on {', '.join(where)}: {reason}")


def _cell(value: list[float | None]) -> str:
    from apportion.bench.compare import number

    middle, low, high = value
    return number(middle) if low is None or high is None else f"{number(middle)}±{number((high - low) / 2)}"
