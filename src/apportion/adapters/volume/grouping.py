"""Rollouts in any number of files and formats become Parquet files that hold whole groups, in bounded memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion.adapters.volume.engines import Engine, engine_of
from apportion.adapters.volume.journal import Journal, journal
from apportion.adapters.volume.merge import merge_shard
from apportion.adapters.volume.run import Told, sweep
from apportion.adapters.volume.sources import Source, find_any, identity
from apportion.adapters.volume.spool import spool_file
from apportion.errors import ConfigError, DataError

SHARD_BYTES = 1 << 27
"""Size of a shard in memory that the number of shards aims at."""
MOST_SHARDS = 1 << 14
GROWTH = {".parquet": 6, ".gz": 20, ".zst": 20}
"""Memory for each byte of a file, by its ending; 4 for others."""
SPOOL = "_spool"


@dataclass(frozen=True, slots=True)
class Grouped:
    """What was done: rows of the inputs = rollouts written + skipped.

    Attributes:
        inputs, files: read and written. rollouts, groups, skipped: counted in all of them.
        remarks: what readers could not know or dropped, each sentence once.
    """

    inputs: int
    files: int
    rollouts: int
    groups: int
    skipped: int
    remarks: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        names = ("inputs", "files", "rollouts", "groups", "skipped")
        return {**{name: getattr(self, name) for name in names}, "remarks": list(self.remarks)}


def group_files(
    given: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    form: str | None = None,
    group_by: str | None = None,
    outcome: str | None = None,
    skip_bad: bool = False,
    engine: str | Engine = "local",
    told: Told | None = None,
) -> Grouped:
    """Write the rollouts of all files into ``out/part-*.parquet``, so that each group stands together in one of them.

    Rows are first sorted into shards by a digest of their group, on the disk below ``out``, then each shard is
    written. A run that was killed goes on with the same call.

    Args:
        given: folders, patterns or files in known formats. out: a folder; it is made.
        form, group_by, outcome, skip_bad: see `apportion.adapters.readers.read_any`.
        engine: see `assign_files`. told: called after each piece of work.

    Raises:
        ConfigError: the folder is that of another run. ApportionError: an input cannot be read, or was changed.
    """
    sources = find_any(given)
    runner = engine_of(engine)
    folder = Path(out)
    _check_apart(folder, sources)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    shards = _shards(sources)
    inputs = {source.path: identity(source.path) for source in sources}
    run = {
        "form": form,
        "group_by": group_by,
        "outcome": outcome,
        "skip_bad": skip_bad,
        "shards": shards,
        "inputs": inputs,
    }
    spool = folder / SPOOL
    with journal(folder, run) as book:
        sweep(folder)
        names = [f"part-{k:05d}.parquet" for k in range(shards)]
        left = [name for name in names if not _is_written(book, folder, name)]
        if left:
            _spool(
                sources, spool, book, runner, told, (shards, form, group_by, outcome, skip_bad), len(names) - len(left)
            )
            _check_unchanged(inputs)
            runs = [f"{k:06d}-{r:05d}" for k, s in enumerate(sources) for r in range(book.done[_input(s)]["runs"])]
            jobs = {name: (merge_shard, (str(spool), runs, names.index(name), str(folder / name))) for name in left}
            done = len(sources) + len(names) - len(left)
            for name, entry in runner.run(jobs):
                book.add({"name": name, **entry})
                done += 1
                if told is not None:
                    told(done, len(sources) + len(names), name)
        shutil.rmtree(spool, ignore_errors=True)
        return _summary(sources, names, book)


def _spool(
    sources: Sequence[Source],
    spool: Path,
    book: Journal,
    runner: Engine,
    told: Told | None,
    how: tuple[int, str | None, str | None, str | None, bool],
    before: int,
) -> None:
    spool.mkdir(mode=0o700, exist_ok=True)
    shards, form, group_by, outcome, skip_bad = how
    left = {
        _input(source): (spool_file, (source.path, str(spool), k, shards, form, group_by, outcome, skip_bad))
        for k, source in enumerate(sources)
        if not _is_spooled(book, spool, k, _input(source))
    }
    done, pieces = before + len(sources) - len(left), len(sources) + shards
    for name, entry in runner.run(left):
        book.add({"name": name, **entry})
        done += 1
        if told is not None:
            told(done, pieces, name)


def _summary(sources: Sequence[Source], names: Sequence[str], book: Journal) -> Grouped:
    inputs = [book.done[_input(source)] for source in sources]
    parts = [book.done[name] for name in names]
    read, written = (sum(e["rollouts"] for e in inputs), sum(e["rows"] for e in parts))
    if read != written:
        raise DataError(f"{read} rollouts were read and {written} written; remove the folder and convert again")
    remarks = list(dict.fromkeys(sentence for entry in inputs for sentence in entry["remarks"]))
    return Grouped(
        inputs=len(inputs),
        files=sum(entry["rows"] > 0 for entry in parts),
        rollouts=written,
        groups=sum(entry["groups"] for entry in parts),
        skipped=sum(entry["skipped"] for entry in inputs),
        remarks=remarks,
    )


def _input(source: Source) -> str:
    return f"input {source.path}"


def _is_written(book: Journal, folder: Path, name: str) -> bool:
    entry = book.done.get(name)
    if entry is None or not entry["rows"]:
        return entry is not None
    path = folder / name
    return path.is_file() and path.stat().st_size == entry["written_bytes"]


def _is_spooled(book: Journal, spool: Path, number: int, name: str) -> bool:
    entry = book.done.get(name)
    return entry is not None and all(
        (spool / f"{number:06d}-{r:05d}{ending}").is_file()
        for r in range(entry["runs"])
        for ending in (".arrow", ".npy")
    )


def _shards(sources: Sequence[Source]) -> int:
    size = sum(os.path.getsize(s.path) * GROWTH.get(Path(s.path).suffix, 4) for s in sources)
    return min(max(-(-size // SHARD_BYTES), 1), MOST_SHARDS)


def _check_unchanged(before: dict[str, dict[str, Any]]) -> None:
    for path, told in before.items():
        if identity(path) != told:
            raise DataError(f"{path} was changed while it was read; remove the folder and convert again")


def _check_apart(folder: Path, sources: Sequence[Source]) -> None:
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file; give a folder for files of whole groups")
    own = os.path.realpath(folder)
    for source in sources:
        if os.path.dirname(os.path.realpath(source.path)) == own:
            raise ConfigError(f"{folder} holds rollouts that are read; give another folder")
