"""Rollouts for a command, from our files or a foreign format, with the bad lines counted."""

from __future__ import annotations

from pathlib import Path

from apportion.cli.output import progress, remark
from apportion.data import Batch


def load(path: Path, *, form: str | None, skip_bad: bool, quiet: bool = False) -> Batch:
    """Read a file or folder into one batch; what was skipped or could not be known is told on stderr."""
    from apportion.adapters.readers import read_any

    with progress(f"reading {path.name}") as advance:
        trajectories, told = read_any(path, form=form, skip_bad=skip_bad, on_trajectory=advance)
    if not quiet:
        for sentence in told.remarks():
            remark(sentence)
    return Batch.from_trajectories(trajectories)
