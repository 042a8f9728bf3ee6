"""JSONL: a header line, then one trajectory a line; for people, for `grep`, and for a trainer's dumps.

    {"schema": "apportion.rollouts/1"}
    {"id": "7", "group": "task-3", "outcome": 1.0, "steps": [{"observation": "…", "ids": [5, 6]}]}

Numbers and texts come back exactly. A file without the header is read too; concatenated files are one file.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Generator, Iterable, Iterator
from typing import Any, BinaryIO

from apportion.data.atomic import atomic_write
from apportion.data.check import where
from apportion.data.compress import compressed, open_read
from apportion.data.record import SCHEMA, from_record, to_json, to_record
from apportion.data.simd import FastLines, fast_lines
from apportion.data.skipped import Skipped, kept
from apportion.data.trajectory import Trajectory
from apportion.errors import DataError, FormatError

LONGEST_LINE = 1 << 28
"""Bytes that a line may have; a file without line breaks must not fill the memory."""


def read_jsonl(path: str | os.PathLike[str], *, skip_bad: bool | Skipped = False) -> list[Trajectory]:
    """All trajectories of a file; see `stream_jsonl`."""
    return list(stream_jsonl(path, skip_bad=skip_bad))


def stream_jsonl(path: str | os.PathLike[str], *, skip_bad: bool | Skipped = False) -> Iterator[Trajectory]:
    """Read one trajectory after the other, in memory that does not grow with the file.

    Args:
        path: a JSONL file, plain or compressed (gzip; Zstandard where pyarrow is installed).
        skip_bad: False raises at the first bad line, True leaves bad lines out and warns with their number
            and reasons at the end, a `Skipped` leaves them out and counts them there.

    Raises:
        FormatError: file, line, reason. With ``skip_bad`` only when no line could be read, the compressed
            data are damaged, or the file is of another schema.
    """
    return kept(_items(path), path, skip_bad)


def write_jsonl(path: str | os.PathLike[str], trajectories: Iterable[Trajectory]) -> int:
    """Write trajectories, one a line; the file is whole or absent.

    A name that ends in .gz or .zst is compressed.

    Returns:
        How many were written.

    Raises:
        DataError: a trajectory breaks a precondition; nothing is written then.
    """
    with JsonlWriter(path) as out:
        for trajectory in trajectories:
            out.write(trajectory)
        return out.count


class JsonlWriter:
    """Writes trajectories as they come; the file appears, whole, when the block ends without an error.

    >>> with JsonlWriter("rollouts.jsonl") as out:  # doctest: +SKIP
    ...     for trajectory in collect():
    ...         out.write(trajectory)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path
        self.count = 0
        self._file: BinaryIO | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> JsonlWriter:
        with contextlib.ExitStack() as stack:
            plain = stack.enter_context(atomic_write(self.path))
            self._file = stack.enter_context(compressed(plain, os.fspath(self.path)))
            self._file.write(_line({"schema": SCHEMA}, "header"))
            self._stack = stack.pop_all()
        return self

    def write(self, trajectory: Trajectory) -> None:
        """Add one line."""
        if self._file is None:
            raise DataError(f"{self.path}: the writer is not open; write inside its `with` block")
        at = where(self.count, trajectory)
        self._file.write(_line(to_record(trajectory, at), at))
        self.count += 1

    def __exit__(self, *error: Any) -> None:
        self._file = None
        self._stack.__exit__(*error)


def parse(line: bytes, at: str, whole: bool = True) -> Any:
    """JSON of one line, with every way in which JSON can be wrong named.

    Args:
        line: bytes of the line.
        at: where it stands.
        whole: False when the file ends without a line break after it.
    """
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{at}: byte {error.start + 1} (0x{line[error.start]:02x}) is not UTF-8; save the file as UTF-8"
        ) from None
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        end = len(text.rstrip())
        if error.pos >= end or text[end - 1] not in "}]":
            why = "a trajectory must stand on one line" if whole else "the file was cut short"
            raise FormatError(f"{at}: the line breaks off after column {end}; {why}") from None
        raise FormatError(f"{at}: not JSON ({error.msg} at column {error.colno}); give one object per line") from None
    except RecursionError:
        raise FormatError(f"{at}: nested too deep to be read; flatten it") from None
    except _NoNumber as error:
        place = _place_of_constant(text)
        raise FormatError(f"{at}: {place}{error} is not JSON; leave out what was not measured") from None
    except FormatError as error:  # from the function below
        raise FormatError(f"{at}: {error}") from None
    except ValueError:  # Python's guard against integers that take ages to read
        raise FormatError(f"{at}: an integer of thousands of digits; give it as a string") from None


def check_schema(schema: object, at: str) -> None:
    """Raise unless the header names our schema, of this major version or an older one."""
    name, _, version = schema.partition("/") if isinstance(schema, str) else ("", "", "")
    ours, _, newest = SCHEMA.partition("/")
    if name != ours:
        raise FormatError(f"{at}: the file holds {schema!r}, not {SCHEMA!r}; other formats: `apportion convert`")
    major = version.partition(".")[0]
    if not major.isdecimal():
        raise FormatError(f"{at}: the schema {schema!r} has no version number; it should be {SCHEMA!r}")
    if int(major) > int(newest):
        raise FormatError(
            f"{at}: the file has schema version {version} and this apportion reads up to {newest}; update apportion"
        )


def _items(path: str | os.PathLike[str]) -> Generator[Trajectory | FormatError, None, None]:
    """A trajectory or what is wrong with it, for every line but headers."""
    fast = fast_lines()
    with open_read(path) as file:
        for number, line, whole in _lines(file, path):
            at = f"{path}, line {number}"
            if fast is not None and (quick := _quick(fast, line, at)) is not None:
                yield quick
                continue
            try:
                record = parse(line, at, whole)
                header = isinstance(record, dict) and "schema" in record and "steps" not in record
                item: Trajectory | FormatError | None = None if header else from_record(record, at)
            except FormatError as error:
                item = error
            if item is None:
                check_schema(record["schema"], at)  # a file of another schema is no matter of one bad line
            else:
                yield item


def _quick(fast: FastLines, line: bytes, at: str) -> Trajectory | None:
    """The trajectory if all is well with it; what is wrong, the other parser finds out, in the same words for all."""
    record = fast.record(line)
    if record is None:
        return None
    try:
        return from_record(record, at)
    except FormatError:
        return None


def _lines(file: BinaryIO, path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes, bool]]:
    """Number, bytes and wholeness of every line that is not blank."""
    number = 0
    while True:
        number += 1
        try:
            line = file.readline(LONGEST_LINE + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise FormatError(f"{path}, line {number}: the compressed data are damaged ({error})") from None
        if not line:
            return
        if len(line) > LONGEST_LINE:
            raise FormatError(
                f"{path}, line {number}: longer than {LONGEST_LINE >> 20} MiB; give one trajectory per line"
            )
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.isspace():
            yield number, line, line.endswith(b"\n")


def _line(record: dict[str, Any], at: str) -> bytes:
    return to_json(record, at).encode("utf-8") + b"\n"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise FormatError(f"the key {twice!r} stands twice in one object; keep one")
    return out


class _NoNumber(Exception):
    """NaN or an infinity, as Python's own writer leaves them in a file."""


def _constant(token: str) -> None:
    raise _NoNumber(token)


def _place_of_constant(text: str) -> str:
    """Where the first of them stands, ``steps[0].logp[3] is no number: ``; nothing where the line breaks off."""
    mark = object()
    try:
        rest: list[tuple[str, Any]] = [("", json.loads(text, parse_constant=lambda _: mark))]
    except (ValueError, RecursionError):
        return ""
    while rest:
        place, value = rest.pop()
        if value is mark:
            return f"{place} is no number: " if place else ""
        if isinstance(value, dict):
            inner = [(f"{place}.{key}" if place else str(key), item) for key, item in value.items()]
        else:
            inner = [(f"{place}[{k}]", item) for k, item in enumerate(value)] if isinstance(value, list) else []
        rest += reversed(inner)
    return ""
