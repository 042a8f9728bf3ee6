"""``apportion demo``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from apportion.cli.output import emit_json, remark, shares, table
from apportion.errors import ConfigError

SHORT = {"grad_cos": "gradient cosine", "grad_cos_mean": "of averaged gradient", "corr": "correlation", "sign": "sign"}


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
    from apportion.bench.demo import SIZES, run_demo

    size = os.environ.get("APPORTION_DEMO") or "full"
    if size not in SIZES:
        raise ConfigError(f"APPORTION_DEMO is {size!r}; set it to {' or '.join(SIZES)}, or leave it unset")
    with shares() as told:
        summary = run_demo(out, size=size, jobs=jobs or None, told=told)
    if json:
        emit_json(summary)
        return
    _show_truth(summary)
    _show_learning(summary, out)


def _show_truth(summary: dict[str, Any]) -> None:
    for name, rows in summary["truth"].items():
        about = summary["truth_policies"][name]
        ordered = sorted(rows.items(), key=lambda row: -row[1]["grad_cos"][0])
        table(
            f"Credit against truth: {name}, a lightly cloned transformer (return {about['J']:.3f}), "
            f"{about['batches']} batches",
            ["credit", *SHORT.values()],
            [[method, *(_cell(row[key]) for key in SHORT)] for method, row in ordered],
        )
    remark(
        "The gradient cosines are the yardstick: does the credit move the policy where the exact gradient does? "
        "Correlation is easily gamed (see 'immediate reward'). Methods that read values are given the exact ones."
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
    return f"{value:+.3f} [{low:+.2f}, {high:+.2f}]"
