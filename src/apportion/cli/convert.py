"""``apportion convert``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from apportion.cli.output import emit_json, progress, remark
from apportion.cli.overwriting import keep_inputs
from apportion.cli.volume import group_folder, is_folder
from apportion.errors import ConfigError, DataError

if TYPE_CHECKING:
    from apportion.adapters.readers import Reading
    from apportion.data import Trajectory


def convert(
    path: Path = typer.Argument(help="A file or folder in a known format."),
    out: Path = typer.Option(
        ..., "--out", "-o", help="Where to write our schema (.jsonl, .jsonl.gz or .parquet); a folder: in whole groups."
    ),
    form: str = typer.Option(None, "--from", help="Format of the input (docs/logs.md); default: recognised."),
    group_by: str = typer.Option(
        None, "--group-by", help="Field that makes rollouts comparable, or first_user_message (foreign formats)."
    ),
    outcome: str = typer.Option(
        None,
        "--outcome-field",
        help="Field that is the outcome; of words, FIELD=WORD: WORD is 1, any other 0 (foreign formats).",
    ),
    skip_bad: bool = typer.Option(False, "--skip-bad", help="Leave broken records out and count them."),
    engine: str = typer.Option("local", "--engine", help="Who writes a folder: local, or ray."),
    json: bool = typer.Option(False, "--json", help="One JSON document on stdout."),
) -> None:
    """Turn a log into our schema; says which format it is and why, what it could not know and what it dropped.

    --out FOLDER writes Parquet files each of which holds whole groups, in little memory, as `assign` wants a folder.

    Example: apportion convert results.json --out runs.jsonl
    """
    if is_folder(out):
        group_folder(
            path, out, form=form, group_by=group_by, outcome=outcome, skip_bad=skip_bad, engine=engine, json=json
        )
        return
    if engine != "local":
        raise ConfigError(f"--engine {engine} writes a folder of whole groups; give --out FOLDER")
    from apportion.adapters.readers import read_any
    from apportion.data import write

    keep_inputs(out, [path])
    with progress(f"converting {path.name}") as advance:
        reading = read_any(path, form, group_by=group_by, outcome=outcome, skip_bad=skip_bad, on_trajectory=advance)
        write(out, _some(reading, path))
    told = reading.report
    if json:
        emit_json({**told.to_dict(), "schema": "apportion.convert/1", "out": str(out), "written": told.trajectories})
        return
    for sentence in told.remarks():
        remark(sentence)
    remark(f"wrote {out}: {told.trajectories} of {told.records} records")


def _some(reading: Reading, path: Path) -> Iterator[Trajectory]:
    """The trajectories; a log without any is refused before a file is written."""
    yield from reading.trajectories
    if not reading.report.trajectories:
        why = "; ".join(reading.report.notes) or "it holds no record"
        raise DataError(f"{path}: no rollout to write ({why})")
