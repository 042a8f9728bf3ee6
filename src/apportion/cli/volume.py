"""Folders of rollouts on the command line: what is a folder's work, its bar and its summary."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.cli.output import emit_json, progress, remark, table
from apportion.errors import ConfigError

if TYPE_CHECKING:
    from apportion.adapters.volume import Summary


def is_folder(out: Path | None) -> bool:
    """The output names a folder: it is one, or its name has no ending."""
    return out is not None and (out.is_dir() or (not out.exists() and not out.suffix))


def more_paths(arguments: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Further files before the first option, as a shell makes of ``big/*.parquet``, and the other arguments."""
    rest = list(arguments)
    paths = []
    while rest and not rest[0].startswith("-"):
        paths.append(Path(rest.pop(0)))
    return paths, rest


def assign_folder(
    paths: Sequence[Path],
    out: Path,
    method: str,
    cut: tuple[str, dict[str, Any]],
    params: dict[str, Any],
    *,
    skip_bad: bool,
    engine: str,
    json: bool,
) -> None:
    """Credit every file by itself, and tell what was done."""
    from apportion.adapters.volume import assign_files

    level, options = cut
    with progress(f"crediting {paths[0]}") as advance:
        summary = assign_files(
            paths,
            out,
            method,
            unit=level,
            options=options,
            params=params,
            skip_bad=skip_bad,
            engine=engine,
            told=_bar(advance),
        )
    if json:
        emit_json({"schema": "apportion.assign.folder/1", "out": str(out), "method": method, **summary.to_dict()})
        return
    _show(summary, f"{method}: {summary.files} files into {out}")
    for sentence in summary.problems:
        remark(f"skipped: {sentence}")
    if summary.kept:
        remark(f"{summary.kept} of {summary.files} files were finished before and are kept")
    if summary.redone:
        remark(f"{summary.redone} were credited again, because their rollouts have changed")


def group_folder(
    path: Path,
    out: Path,
    *,
    form: str | None,
    group_by: str | None,
    outcome: str | None,
    skip_bad: bool,
    engine: str,
    json: bool,
) -> None:
    """Write files of whole groups, and tell what was done."""
    from apportion.adapters.volume import group_files

    with progress(f"grouping {path.name}") as advance:
        done = group_files(
            [path],
            out,
            form=form,
            group_by=group_by,
            outcome=outcome,
            skip_bad=skip_bad,
            engine=engine,
            told=_bar(advance),
        )
    if json:
        emit_json({"schema": "apportion.convert.folder/1", "out": str(out), **done.to_dict()})
        return
    for sentence in done.remarks:
        remark(sentence)
    skipped = f", {done.skipped} rows skipped" if done.skipped else ""
    remark(
        f"wrote {done.rollouts} rollouts in {done.groups} whole groups from {done.inputs} files to {done.files} in "
        f"{out}{skipped}; credit them with `apportion assign {out} --out CREDITED/`"
    )


def _bar(advance: Any) -> Any:
    seen = 0

    def told(done: int, pieces: int, name: str) -> None:
        nonlocal seen
        advance(done - seen, name, total=pieces)
        seen = done

    return told


def no_folder_options(
    *, form: str | None, group_by: str | None, outcome: str | None = None, values: Path | None = None
) -> None:
    """Raise for options that only a single file has."""
    if values is not None:
        raise ConfigError("--values is for one file; write predictions into the folder's files first: apportion models")
    for name, value in (("--from", form), ("--group-by", group_by), ("--outcome-field", outcome)):
        if value is not None:
            raise ConfigError(f"{name} is for foreign formats, and a folder is Parquet of ours; convert it first")


def _show(summary: Summary, title: str) -> None:
    counts = summary.counts
    table(
        title,
        ["rollouts", "groups", "units", "unknown units", "dropped units", "skipped rows"],
        [[str(counts[name]) for name in ("rollouts", "groups", "units", "unknown_units", "dropped_units", "skipped")]],
    )
