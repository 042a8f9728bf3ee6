"""A run over many files: what is there, what is done already, and the rest through an engine."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion.adapters.volume.crediting import Plan, credit_file
from apportion.adapters.volume.engines import Engine, engine_of
from apportion.adapters.volume.groups import check_whole, scan_groups
from apportion.adapters.volume.journal import Journal, journal
from apportion.adapters.volume.sources import Source, digest, find_sources, identity
from apportion.assign import beyond_group, check_level, required_cut, required_needs
from apportion.assign.checked import record_of
from apportion.errors import ConfigError, DataError
from apportion.units import CUTS

COUNTED = ("rows", "groups", "rollouts", "skipped", "units", "unknown_units", "dropped_units")
SCAN = "_scan"
WHOLE_BATCH_STATES = ("learned",)
"""Rules of states that look at all rollouts."""
Told = Callable[[int, int, str], None]
"""Called with files done, files in all, and the file that was finished last."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a run did; the counts are those of all files, also of those that were finished before.

    Attributes:
        files: in all. fresh: credited now. kept: finished before. redone: among the fresh, those whose input changed.
        counts: sums over the files: rows = rollouts + skipped; groups; units, of them unknown and dropped.
        problems: sentences about rows that were left out, the first of each file.
    """

    files: int
    fresh: int
    kept: int
    redone: int
    counts: Mapping[str, int]
    problems: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        files = {"files": self.files, "fresh": self.fresh, "kept": self.kept, "redone": self.redone}
        return {**files, **self.counts, "problems": list(self.problems)}


def assign_files(
    given: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    method: str,
    *,
    unit: str = "",
    options: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    skip_bad: bool = False,
    engine: str | Engine = "local",
    told: Told | None = None,
) -> Summary:
    """Credit every Parquet file of ``given`` by itself, in bounded memory, into files of the same names below ``out``.

    The numbers are those of `apportion.assign` on all rollouts at once, bit by bit. A run that was killed goes on with
    the same call; finished files stay, those whose input has changed are credited again.

    Args:
        given: folders, patterns or files; each file holds whole groups whose rows are neighbours.
        out: a folder; it is made. What it holds is told in `apportion.credit.columns`.
        method, params: as for `apportion.assign`. unit: level of the cut, default the method's. options: of the cut.
        skip_bad: leave broken rows out and count them.
        engine: "local" or "ray", or an `Engine`.
        told: called after every file.

    Raises:
        ConfigError: a method that looks beyond the group or asks; another run's folder.
        DataError: a group is split between files; a file was changed while it was read, or is gone.
        FormatError: a file cannot be read.
    """
    plan = _plan(method, unit, dict(options or {}), dict(params or {}), skip_bad)
    sources = find_sources(given)
    runner = engine_of(engine)
    folder = Path(out)
    _check_apart(folder, sources)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with journal(folder, {**plan.header, "skip_bad": skip_bad}) as book:
        _check_gone(book, sources, folder)
        sweep(folder)
        groups = _whole(sources, " ".join(map(str, given)), folder)
        todo, redone = _todo(sources, book, folder)
        done = len(sources) - len(todo)
        jobs = {s.name: (credit_file, (s, str(folder / s.name), plan, groups[s.name])) for s in todo}
        for job in todo:
            (folder / job.name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if told is not None:
            told(done, len(sources), "")
        for name, entry in runner.run(jobs):
            book.add(entry)
            done += 1
            if told is not None:
                told(done, len(sources), name)
        sweep(folder)  # a worker may have been killed at its file, which another has written since
        entries = [book.done[source.name] for source in sources]
    return Summary(
        files=len(sources),
        fresh=len(todo),
        kept=len(sources) - len(todo),
        redone=redone,
        counts={name: sum(entry[name] for entry in entries) for name in COUNTED},
        problems=[sentence for entry in entries for sentence in entry["problems"][:1]],
    )


def _plan(method: str, unit: str, options: dict[str, Any], params: dict[str, Any], skip_bad: bool) -> Plan:
    header = record_of(method, params)
    if needs := required_needs(method):
        raise ConfigError(
            f"{method} asks a {' and a '.join(need.replace('_', ' ') for need in needs)}, which files credited by "
            "themselves cannot share; credit each file with `apportion assign FILE --out CREDIT.parquet --cache FOLDER`"
        )
    if wide := beyond_group(method, params):
        raise ConfigError(
            f"{wide} takes its numbers from all rollouts at once, so a file cannot be credited by itself; leave it "
            "out here and apply it where the whole batch is, or credit one file with --out CREDIT.parquet"
        )
    level = unit or required_cut(method)
    if level not in CUTS:
        raise ConfigError(f"no unit named {level!r}; there are {', '.join(CUTS)}")
    check_level(method, level)
    if options.get("state") in WHOLE_BATCH_STATES:
        raise ConfigError(
            "states 'learned' learns from all rollouts at once, so a file cannot be credited by itself; give "
            "'normalised', which applies rules that are known"
        )
    header = {**header, "cut": {"level": level, **options}}
    return Plan(header, method, params, level, options, skip_bad)


def _whole(sources: Sequence[Source], given: str, folder: Path) -> dict[str, int]:
    """Groups of each file, once it is known that every group is whole in one."""
    place = folder / SCAN
    shutil.rmtree(place, ignore_errors=True)  # of a run that was killed
    place.mkdir(mode=0o700)
    try:
        spills = [place / f"{k}.u8" for k in range(len(sources))]
        groups = {s.name: scan_groups(s.path, str(spill))["groups"] for s, spill in zip(sources, spills, strict=True)}
        check_whole(sources, spills, given)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return groups


def _todo(sources: Sequence[Source], book: Journal, folder: Path) -> tuple[list[Source], int]:
    """What is left, and how many of these were done before and have changed since."""
    todo, redone = [], 0
    for source in sources:
        entry = book.done.get(source.name)
        target = folder / source.name
        if entry is None or not target.is_file() or target.stat().st_size != entry["written_bytes"]:
            todo.append(source)
        elif not _unchanged(source, entry):
            todo.append(source)
            redone += 1
    return todo, redone


def _unchanged(source: Source, entry: Mapping[str, Any]) -> bool:
    now = identity(source.path)
    if now["bytes"] != entry["bytes"]:
        return False
    return bool(now["mtime_ns"] == entry["mtime_ns"]) or digest(source.path) == entry["sha256"]


def _check_gone(book: Journal, sources: Sequence[Source], folder: Path) -> None:
    here = {source.name for source in sources}
    for name in book.done:
        if name not in here:
            raise DataError(
                f"{folder / name} was made of {name}, which is not among the files now; give it again, or give another "
                "folder for the credit"
            )


def _check_apart(folder: Path, sources: Sequence[Source]) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; give a folder for the credit of many files")
    for source in sources:
        if os.path.realpath(folder / source.name) == os.path.realpath(source.path):
            raise ConfigError(f"{folder} holds the rollouts themselves; give another folder for the credit")


def sweep(folder: Path) -> None:
    """Remove what a killed run was about to write; nobody else is at this folder."""
    for path in folder.rglob(".*.tmp"):
        if re.fullmatch(r"\..+\.[0-9a-f]{8}\.tmp", path.name):
            path.unlink(missing_ok=True)
