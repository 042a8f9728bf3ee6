"""``apportion check``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill

import typer

from apportion.cli.output import emit_json, emit_text, progress

INDENT = " " * 9


def check(
    path: Path = typer.Argument(help="Rollouts: our JSONL or Parquet, or a chat log in a known format."),
    form: str = typer.Option(None, "--from", help="Format of the input; default: recognised."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Say whether credit on these rollouts can be trusted: findings, worst first, each with evidence and remedy.

    Exit code 1 when something needs attention, 0 when nothing does.

    Example: apportion check runs.jsonl
    """
    from apportion.adapters.readers import read_any
    from apportion.check import check_file

    with progress(f"checking {path.name}") as advance:
        findings = check_file(
            path, read=lambda p, skipped: read_any(p, form, skip_bad=skipped, on_trajectory=advance).trajectories
        )
    if json:
        emit_json(findings.to_dict())
    elif not findings:
        emit_text(f"{path.name}: nothing found ({_subject(findings.subject)})")
    else:
        emit_text(f"{path.name}: {_subject(findings.subject)}\n")
        for finding in findings:
            emit_text(f"{finding.severity:<8} {finding.code}")
            emit_text(fill(finding.message, 100, initial_indent=INDENT, subsequent_indent=INDENT))
            emit_text(fill("→ " + finding.remedy, 100, initial_indent=INDENT, subsequent_indent=INDENT + "  ") + "\n")
    raise typer.Exit(findings.exit_code)


def _subject(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
