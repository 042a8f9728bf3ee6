"""Parquet: one row per trajectory, its steps a list of structs; for volume, and for every tool that reads columns.

The columns stand in `columnar`. Token ids are stored as differences in few bits, per-token floats byte by byte (the
bytes of a float repeat, whole floats do not) under LZ4, text under Zstandard; dictionaries only where values recur.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from apportion.data.atomic import atomic_write
from apportion.data.columnar import STEP_COLUMNS, TOKENS, arrow, first_line, schema_of
from apportion.data.columnar_read import check_columns, found
from apportion.data.columnar_write import record_batches
from apportion.data.compress import open_read
from apportion.data.narrow import narrowed
from apportion.data.room import kept_room
from apportion.data.skipped import Skipped, kept
from apportion.data.trajectory import Trajectory
from apportion.errors import FormatError

ROWS, WEIGHT = 1024, 1 << 22
"""A row group ends at this many trajectories, or at this many tokens and characters: what a reader must hold."""

REPETITIVE = ("observation", "action", "state", "agent", "actions.list.element", "columns.list.element.name")
"""Columns whose values recur, so that a dictionary pays; token columns would only pay for trying."""
_ENCODING = {"ids": "DELTA_BINARY_PACKED", "floats": "BYTE_STREAM_SPLIT"}
_COMPRESSION = {"ids": "none", "floats": "lz4"}


def read_parquet(path: str | os.PathLike[str], *, skip_bad: bool | Skipped = False) -> list[Trajectory]:
    """All trajectories of a file; see `stream_parquet`."""
    return list(stream_parquet(path, skip_bad=skip_bad))


def stream_parquet(
    path: str | os.PathLike[str], *, batch_size: int = ROWS, skip_bad: bool | Skipped = False
) -> Iterator[Trajectory]:
    """Read one trajectory after the other, at most ``batch_size`` rows of one row group in memory.

    Args:
        path: a Parquet file that `write_parquet` made, or another tool from one.
        batch_size: rows decoded at a time.
        skip_bad: False raises at the first bad row, True leaves bad rows out and warns with their number and
            reasons at the end, a `Skipped` leaves them out and counts them there.

    Raises:
        FormatError: file, row, reason; not a Parquet file, or not of our schema.
        MissingExtra: pyarrow is not installed.
    """
    return kept(_items(path, batch_size), path, skip_bad)


def write_parquet(path: str | os.PathLike[str], trajectories: Iterable[Trajectory]) -> int:
    """Write trajectories by row groups as they come; the file is whole or absent.

    Returns:
        How many were written.

    Raises:
        DataError: a trajectory breaks a precondition; nothing is written then.
        MissingExtra: pyarrow is not installed.
    """
    return narrowed(lambda columns: _write(path, trajectories, columns), trajectories)


def _write(path: str | os.PathLike[str], trajectories: Iterable[Trajectory], narrow: Collection[str]) -> int:
    pa, _ = arrow("writing Parquet", "parquet")
    count = 0
    schema = schema_of(pa, narrow)
    with kept_room() as room, parquet_writer(path, schema) as writer:
        for batch in record_batches(pa, schema, trajectories, rows=ROWS, weight=WEIGHT, room=room):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


@contextmanager
def parquet_writer(path: str | os.PathLike[str], schema: Any = None, more: Sequence[str] = ()) -> Iterator[Any]:
    """A `pyarrow.parquet.ParquetWriter` for record batches of our schema; the file is whole or absent.

    Args:
        path: where to.
        schema: what `schema_of` made, with further columns if need be; None is what holds any rollouts.
        more: leaves of further columns whose values recur.

    Raises:
        MissingExtra: pyarrow is not installed.
    """
    pa, pq = arrow("writing Parquet", "parquet")
    schema = schema_of(pa) if schema is None else schema
    kinds = {f"steps.list.element.{name}.list.element": kind for name, kind in STEP_COLUMNS.items() if kind in TOKENS}
    kinds["steps.list.element.columns.list.element.values.list.element"] = "floats"
    with (
        atomic_write(path) as file,
        pq.ParquetWriter(
            file,
            schema,
            compression={name: _COMPRESSION.get(kinds.get(name, ""), "zstd") for name in _leaves(pa, pq, schema)},
            column_encoding={name: _ENCODING[kind] for name, kind in kinds.items()},
            use_dictionary=["group", *(f"steps.list.element.{name}" for name in REPETITIVE), *more],
            write_statistics=["id", "group", "outcome"],
            write_batch_size=2**16,
        ) as writer,
    ):
        yield writer


def _items(path: str | os.PathLike[str], batch_size: int) -> Generator[Trajectory | FormatError, None, None]:
    """A trajectory or what is wrong with it, for every row."""
    pa, pq = arrow("reading Parquet", "parquet")
    broken = (pa.ArrowException, OSError, UnicodeDecodeError)
    with open_read(path) as raw:
        try:
            file = pq.ParquetFile(raw)
        except broken as error:
            raise FormatError(f"{path}: not a Parquet file that can be read ({first_line(error)})") from None
        check_columns(pa, file.schema_arrow, path, "a Parquet")
        row = 0
        batches = file.iter_batches(batch_size=batch_size, use_threads=False)
        while True:
            try:
                batch = next(batches, None)
                items = [] if batch is None else list(found(pa, batch, path, row))
            except broken as error:
                raise FormatError(f"{path}, from row {row} on: damaged ({first_line(error)})") from None
            if batch is None:
                return
            yield from items
            row += len(items)


def _leaves(pa: ModuleType, pq: ModuleType, schema: Any) -> list[str]:
    """Every column of numbers or texts, by the name that Parquet gives it."""
    sink = pa.BufferOutputStream()
    pq.ParquetWriter(sink, schema).close()
    described = pq.ParquetFile(pa.BufferReader(sink.getvalue())).schema
    return [described.column(k).path for k in range(len(described))]
