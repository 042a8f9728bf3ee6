"""The door for files. Which of our formats a file has, its bytes say; the others go through `apportion convert`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from apportion.data.arrow import stream_arrow, write_arrow
from apportion.data.batch import Batch, from_checked
from apportion.data.compress import open_read
from apportion.data.jsonl import stream_jsonl, write_jsonl
from apportion.data.parquet import stream_parquet, write_parquet
from apportion.data.skipped import Skipped
from apportion.data.trajectory import Trajectory
from apportion.errors import ConfigError, FormatError

__all__ = ["PathLike", "Skipped", "read", "stream", "write"]

PathLike = str | os.PathLike[str]
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet", ".arrow")

_READERS: dict[str, Callable[..., Iterator[Trajectory]]] = {
    "jsonl": stream_jsonl,
    "parquet": stream_parquet,
    "arrow": stream_arrow,
}

_MAGIC = {
    b"[": "a JSON array",
    b"<": "HTML or XML",
    b"\x80": "a Python pickle, which is never opened",
    b"PK": "a zip archive (npz, xlsx, a torch file)",
    b"\x89HDF": "HDF5",
    b"SQLite": "an SQLite database",
    b"\x93NUMPY": "a NumPy array",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}


def read(paths: PathLike | Iterable[PathLike], *, skip_bad: bool | Skipped = False) -> Batch:
    """Read rollouts of our own formats into one checked batch.

    Args:
        paths: a file, a folder (its .jsonl, .jsonl.gz, .jsonl.zst, .parquet and .arrow files by name), or several.
        skip_bad: False raises at the first bad record, True leaves bad ones out and warns with their number and
            reasons, a `Skipped` leaves them out and counts them there.

    Raises:
        FormatError: file, line and reason; for a file that is not ours, what it looks like.
        DataError: the trajectories do not make a batch (none at all, an id twice).
    """
    return from_checked(stream(paths, skip_bad=skip_bad))


def stream(paths: PathLike | Iterable[PathLike], *, skip_bad: bool | Skipped = False) -> Iterator[Trajectory]:
    """The trajectories of `read` one after the other, in memory that does not grow with the files."""
    for path in _files(paths):
        yield from _READERS[kind_of(path)](path, skip_bad=skip_bad)


def write(path: PathLike, trajectories: Batch | Iterable[Trajectory]) -> int:
    """Write rollouts in the format that the name ends with; the file is whole or absent.

    Args:
        path: ends in .jsonl, .jsonl.gz, .jsonl.zst, .parquet or .arrow.
        trajectories: a batch, or any iterable of trajectories (it is never held whole).

    Returns:
        How many were written.

    Raises:
        ConfigError: another ending. DataError: a trajectory breaks a precondition; nothing is written then.
    """
    name = os.fspath(path)
    if not name.endswith(SUFFIXES):
        raise ConfigError(f"{path}: no format for this ending; use one of {', '.join(SUFFIXES)}")
    if name.endswith(".parquet"):
        return write_parquet(path, trajectories)
    return (write_arrow if name.endswith(".arrow") else write_jsonl)(path, trajectories)


def kind_of(path: PathLike) -> str:
    """ "jsonl", "parquet" or "arrow", by the first bytes.

    Raises:
        FormatError: neither, with a guess at what it is.
    """
    with open_read(path) as file:
        try:
            head = file.read(4096)
        except (OSError, EOFError) as error:
            raise FormatError(f"{path}: the compressed data are damaged ({error})") from None
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"ARROW1"):
        return "arrow"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"{"):
        return "jsonl"
    if not start:
        raise FormatError(f"{path}: the file is empty; a rollout file has at least a header line")
    what = next((name for magic, name in _MAGIC.items() if start.startswith(magic)), "neither JSONL, Parquet nor Arrow")
    raise FormatError(f"{path}: not a rollout file of ours (it looks like {what}); other formats: `apportion convert`")


def _files(paths: PathLike | Iterable[PathLike]) -> Iterator[PathLike]:
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        if not Path(path).is_dir():
            yield path
            continue
        found = sorted(file for file in Path(path).iterdir() if file.name.endswith(SUFFIXES) and file.is_file())
        found = [file for file in found if not file.name.startswith(".")]
        if not found:
            raise FormatError(f"{path}: no rollout files in this folder; they end in {', '.join(SUFFIXES)}")
        yield from found
