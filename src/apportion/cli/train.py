"""``apportion train``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from apportion.cli.output import emit_json, remark, shares, table
from apportion.cli.params import named

if TYPE_CHECKING:
    from apportion.train.listening import OnCredit


def train(
    context: typer.Context,
    config: Path = typer.Option(None, "--config", "-c", help="TOML, YAML or JSON file of settings."),
    set_: list[str] = typer.Option([], "--set", "-s", help="A setting as key=value; tables with dots."),
    resume: bool = typer.Option(False, "--resume", help="Go on where the run in --out stopped, to equal numbers."),
    check: bool = typer.Option(False, "--check", help="Check every batch, and end a run that collapses, saying why."),
    watch_collapse: bool = typer.Option(
        False,
        "--watch-collapse",
        help="Follow clip rate, repetition and pseudo-positives, and end a run that collapses.",
    ),
    show: bool = typer.Option(False, "--show", help="Print every setting with its value and leave."),
    json: bool = typer.Option(False, "--json", help="The result as one JSON document on stdout."),
) -> None:
    """Train a language model on a text environment with credit in between.

    Every setting is also a flag: --env, --method, --lr, --tasks, --out, … Flags go before --set, --set before the file.

    Example: apportion train --env crafttree --method gigpo --clone-episodes 40 --iterations 30 --out runs/mine
    """
    from apportion.check import CollapseMonitor, LiveCheck
    from apportion.train import TrainConfig
    from apportion.train import train as run

    base = TrainConfig() if config is None else TrainConfig.from_file(config)
    if resume and config is None and not set_ and len(context.args) == 2 and context.args[0] == "--out":
        base = TrainConfig.from_file(Path(context.args[1]) / "config.json")
    settings = base.with_overrides([*set_, *_flags(context.args)])
    if show:
        emit_json(settings.to_mapping()) if json else _show(settings.to_mapping())
        return
    listeners: list[OnCredit] = [LiveCheck()] if check else []
    if watch_collapse:
        limit = settings.max_action_tokens if settings.actions == "text" else None
        process = settings.method_params.get("process") or "prm"
        listeners.append(CollapseMonitor(limit=limit, process=process))
    with shares() as told:
        result = run(
            settings,
            resume=resume,
            on_progress=lambda p: told(p.stage, p.done / max(p.total, 1)),
            on_credit=listeners,
        )
    document = {
        "schema": "apportion.train/1",
        "out": str(result.folder),
        **result.to_mapping(),
    }
    if json:
        emit_json(document)
        raise typer.Exit(int(result.stopped is not None))
    rows = [[name, _number(result.before.get(name)), _number(result.after.get(name))] for name in result.after]
    table(
        f"{settings.env}, {settings.method}: {result.iterations} iterations, {result.generated_tokens:,} tokens",
        ["held out", "before", "after"],
        rows,
    )
    remark(f"credit took {result.credit_share:.2%} of the iteration; everything {result.seconds:.0f} s")
    remark(f"wrote {result.folder}: policy, metrics.jsonl, checkpoints, config.json")
    if result.stopped is not None:
        remark(result.stopped)
        raise typer.Exit(1)


def _flags(arguments: list[str]) -> list[str]:
    """``--clone-episodes 40`` as ``clone_episodes=40``."""
    return [f"{name.replace('-', '_')}={value}" for name, value in named(arguments, "settings")]


def _show(settings: dict[str, Any]) -> None:
    table("", ["setting", "value"], [[name, repr(value)] for name, value in settings.items()])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
