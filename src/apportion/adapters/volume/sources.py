"""The files of a run: found in a folder, by a pattern or named one by one, and how each is told from another."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apportion.errors import DataError

OTHERS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".json", ".arrow", ".arrows")
"""Endings of rollouts that are no Parquet; anything else beside them is left alone."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file of rollouts. ``name`` is its path below the folder that was given, or its own name."""

    name: str
    path: str


def find_any(given: Sequence[str | os.PathLike[str]]) -> list[Source]:
    """Files of rollouts in any format, in folders (those below them too), patterns and paths, by path.

    Raises:
        DataError: nothing is there.
    """
    found: dict[str, Source] = {}
    for item in (os.fspath(each) for each in given):
        if os.path.isdir(item):
            inside = [path for path in _inside(Path(item)) if path.name.endswith((".parquet", *OTHERS))]
        else:
            inside = [Path(item)] if os.path.isfile(item) else [Path(f) for f in glob.glob(item, recursive=True)]
        found.update((str(path), Source(str(path), str(path))) for path in inside)
    if not found:
        raise DataError(f"{', '.join(map(str, given))}: no rollouts are there; give a folder, a pattern or files")
    return [found[name] for name in sorted(found)]


def find_sources(given: Sequence[str | os.PathLike[str]]) -> list[Source]:
    """The Parquet files of folders (those below them too), patterns and paths, by name.

    What begins with a dot or an underscore is no data, as for other tools.

    Raises:
        DataError: nothing is there, two files have one name, or there are rollouts in another format.
    """
    found: dict[str, Source] = {}
    for item in given:
        for source in _of(os.fspath(item)):
            if found.setdefault(source.name, source).path != source.path:
                raise DataError(
                    f"{source.path} and {found[source.name].path} would both be written to {source.name}; "
                    "give the folder that holds both"
                )
    if not found:
        raise DataError(f"{', '.join(map(str, given))}: no Parquet file is there; give a folder, a pattern or files")
    return [found[name] for name in sorted(found)]


def _of(item: str) -> list[Source]:
    path = Path(item)
    if path.is_dir():
        inside = _inside(path)
        for file in inside:
            if file.name.endswith(OTHERS):
                raise DataError(
                    f"{file} holds rollouts in another format than Parquet; `apportion convert {item} --out FOLDER/` "
                    "makes Parquet files of all, each with whole groups"
                )
        return [Source(f.relative_to(path).as_posix(), str(f)) for f in inside if f.suffix == ".parquet"]
    if path.is_file():
        return [Source(_parquet_name(path), str(path))]
    return [Source(_parquet_name(Path(f)), f) for f in sorted(glob.glob(item, recursive=True)) if os.path.isfile(f)]


def _parquet_name(path: Path) -> str:
    return path.name if path.suffix == ".parquet" else f"{path.name}.parquet"


def _inside(folder: Path) -> list[Path]:
    """Its files, but for those whose path begins anywhere with a dot or an underscore."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if not any(p.startswith((".", "_")) for p in path.relative_to(folder).parts)]


def identity(path: str) -> dict[str, Any]:
    """Size and time of change: what is looked at first."""
    stat = os.stat(path)
    return {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def digest(path: str) -> str:
    """SHA-256 of the content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
