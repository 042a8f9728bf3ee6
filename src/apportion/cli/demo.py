"""``apportion demo``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from apportion.cli.interrupt import Stopped
from apportion.cli.output import emit_json, remark, shares, table
from apportion.errors import ConfigError


def demo(
    out: Path = typer.Option(Path("runs/demo"), "--out", "-o", help="Folder for summary, picture, report and runs."),
    jobs: int = typer.Option(
        0, "--jobs", "-j", min=0, help="Training processes at a time; 0 = one per core, at most 3."
    ),
    json: bool = typer.Option(False, "--json", help="The summary as one JSON document on stdout."),
) -> None:
    """Train a small agent with GRPO and with GiGPO, and hold every method against the exact answer.

    APPORTION_DEMO=quick does the same at toy size in under a minute. A demo that was stopped goes on where it was.

    Example: apportion demo --out runs/demo
    """
    from apportion.bench.demo import SIZES, equipped, run_demo

    size = os.environ.get("APPORTION_DEMO") or "full"
    if size not in SIZES:
        raise ConfigError(f"APPORTION_DEMO is {size!r}; set it to {' or '.join(SIZES)}, or leave it unset")
    equipped()
    _announce(out, size)
    with shares() as told:
        try:
            summary = run_demo(out, size=size, jobs=jobs or None, told=told)
        except KeyboardInterrupt:
            raise Stopped(f"what is finished is kept in {out}, and the same command goes on from there") from None
    if json:
        emit_json(summary)
        return
    _show_truth(summary)
    _show_learning(summary, out)


def _announce(out: Path, size: str) -> None:
    """What will happen and how long it takes, before the first seconds in which nothing moves."""
    remark("1. Two games whose exact advantage is known: every method's credit is held against it.")
    remark("2. BabyAI as text: an agent cloned from an expert is trained with GRPO and with GiGPO, three seeds each.")
    if size == "full":
        remark("About four minutes on two free cores. Ctrl-C does no harm: the same command goes on from there.")
    else:
        remark("At toy size, under a minute: it shows that everything runs, and its numbers say nothing.")
    if (out / "summary.json").is_file():
        remark(f"The finished demo in {out} is replaced.")


def _show_truth(summary: dict[str, Any]) -> None:
    games = summary["truth"]
    about = summary["truth_policies"]
    played = ", ".join(f"{name} (return {about[name]['J']:.2f}, {about[name]['batches']} batches)" for name in games)
    first, methods = next(iter(games.values())), dict.fromkeys(name for rows in games.values() for name in rows)
    table(
        f"Cosine of one batch's policy gradient with the exact one: a lightly cloned transformer on {played}",
        ["credit", *games],
        [
            [method, *(_cell(rows[method]["grad_cos"]) if method in rows else "" for rows in games.values())]
            for method in sorted(methods, key=lambda name: -first[name]["grad_cos"][0] if name in first else 1.0)
        ],
    )
    remark(
        "Mean and 95% interval over batches. Methods that read values are given the exact ones, which nobody has. "
        "Further measures are in the report."
    )
    skipped = sorted({name for reasons in summary["truth_skipped"].values() for name in reasons})
    if skipped:
        remark(
            f"Not run here, because the rollouts lack what they read (reasons in summary.json): {', '.join(skipped)}"
        )


def _show_learning(summary: dict[str, Any], out: Path) -> None:
    learning = summary["learning"]
    arms = [name for name, arm in learning.items() if isinstance(arm, dict) and "greedy" in arm]
    rows = [["before (cloned)", f"{learning['before']:.3f}", "", f"{learning['before_greedy']:.3f}", ""]]
    for arm in arms:
        found = learning[arm]
        rows.append(
            [
                arm,
                f"{found['mean']:.3f} [{found['ci95'][0]:.3f}, {found['ci95'][1]:.3f}]",
                " ".join(f"{x:.3f}" for x in found["success"]),
                f"{found['greedy_mean']:.3f} [{found['greedy_ci95'][0]:.3f}, {found['greedy_ci95'][1]:.3f}]",
                " ".join(f"{x:.3f}" for x in found["greedy"]),
            ]
        )
    tokens = max(max(learning[arm]["generated_tokens"]) for arm in arms)
    table(
        f"Learning: {summary['env']}, held-out success, {tokens:,} generated tokens per run, 95% intervals over seeds",
        ["arm", "sampled", "each seed", "greedy", "each seed"],
        rows,
    )
    gap = learning["difference"]
    low, high = gap["ci95"]
    verdict = "no difference that these seeds can show" if low <= 0 <= high else "a difference beyond the interval"
    remark(f"{gap['of']}, paired by seed: {gap['mean']:+.3f} [{low:+.3f}, {high:+.3f}] sampled: {verdict}")
    remark(f"GiGPO's credit took {summary['credit_share']:.2%} of the iteration; everything {summary['seconds']:.0f} s")
    remark(f"report: {out / 'report.html'}   picture: {out / 'learning.png'}   numbers: {out / 'summary.json'}")


def _cell(interval: list[float]) -> str:
    value, low, high = interval
    return f"{value:z.2f} [{low:z.2f}, {high:z.2f}]"
