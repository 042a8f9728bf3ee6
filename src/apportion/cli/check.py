"""``apportion check``."""

from __future__ import annotations

from pathlib import Path

import typer

from apportion.cli.output import emit_json, emit_text, progress, table


def check(
    path: Path = typer.Argument(help="Rollouts: our JSONL or Parquet, or a chat log in a known format."),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Say whether credit on these rollouts can be trusted: findings, worst first, each with evidence and remedy.

    Exit code 1 when something needs attention, 0 when nothing does.

    Example: apportion check runs.jsonl
    """
    from apportion.check import check_file

    with progress(f"checking {path.name}"):
        findings = check_file(path, form=form)
    if json:
        emit_json(findings.to_dict())
    elif not findings:
        emit_text(f"{path.name}: nothing found in {findings.trajectories} trajectories")
    else:
        rows = [[f.severity, f.code, f.where, f.message, f.remedy] for f in findings]
        table(
            f"{path.name}: {findings.trajectories} trajectories",
            ["severity", "finding", "where", "evidence", "what to do"],
            rows,
        )
    raise typer.Exit(findings.exit_code)
