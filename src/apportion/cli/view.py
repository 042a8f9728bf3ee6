"""``apportion view``."""

from __future__ import annotations

from pathlib import Path

import typer

from apportion.cli.output import console, emit_json, progress, remark


def view(
    paths: list[Path] = typer.Argument(help="Credit files that `apportion assign --out` wrote; several are compared."),
    out: Path = typer.Option(None, "--out", "-o", help="Write an HTML report here; it opens offline."),
    trajectory: str = typer.Option(
        None, "--trajectory", "-t", help="Show this trajectory (id or position) in the terminal."
    ),
    full: bool = typer.Option(False, "--full", help="Whole texts and contexts in the terminal, not their beginnings."),
    json: bool = typer.Option(False, "--json", help="The report's data as one JSON document on stdout."),
) -> None:
    """Look at credit laid over the transcript, in the terminal or as one HTML file.

    Example: apportion view credit.parquet --out credit.html
    """
    from apportion.credit import read_credit
    from apportion.report import report, report_model
    from apportion.report.text import trajectory_table

    credits = []
    for path in paths:
        with progress(f"reading {path.name}"):
            credits.append(read_credit(path))
    if json:
        emit_json(report_model(credits))
        return
    if out is not None:
        with progress(f"writing {out.name}"):
            report(credits, out)
        remark(f"wrote {out}; open it in a browser")
    if out is None or trajectory is not None:
        which = int(trajectory) if trajectory is not None and trajectory.isdigit() else trajectory
        console().print(trajectory_table(report_model(credits), which, full=full))
