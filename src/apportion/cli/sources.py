"""Rollouts for a command, from our files or a foreign format, with the bad lines counted."""

from __future__ import annotations

from pathlib import Path

from apportion.cli.output import progress, remark
from apportion.data import Batch
from apportion.errors import DataError


def load(path: Path, *, form: str | None, group_by: str | None, outcome: str | None = None, skip_bad: bool) -> Batch:
    """Read a file or folder into one batch; what was skipped or could not be known is told on stderr."""
    from apportion.adapters.readers import read_any

    with progress(f"reading {path.name}") as advance:
        reading = read_any(path, form, group_by=group_by, outcome=outcome, skip_bad=skip_bad, on_trajectory=advance)
        trajectories = list(reading.trajectories)
    for sentence in reading.report.remarks():
        remark(sentence)
    if not trajectories:
        raise DataError(f"{path}: no rollout is left to credit; see the reasons above")
    return Batch.from_trajectories(trajectories)
