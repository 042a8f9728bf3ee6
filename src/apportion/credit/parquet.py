"""The Parquet form of a credit file: one row per trajectory, numbers as columns that any tool can read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from apportion.data import Batch
from apportion.data.columnar import arrow, first_line, schema_of
from apportion.data.columnar_read import check_steps, found, views
from apportion.data.columnar_write import lists_of, record_batches
from apportion.data.jsonl import parse
from apportion.data.narrow import narrowed
from apportion.data.parquet import ROWS, WEIGHT, parquet_writer
from apportion.data.record import to_json
from apportion.data.room import kept_room
from apportion.errors import FormatError

KEY = b"apportion.credit"
MAGIC = b"PAR1"
OLD = "trajectory_json"
"""Where the first files hold the rollout, as JSON text; they are still read."""


def is_parquet(file: BinaryIO) -> bool:
    """The file starts as Parquet does."""
    peek = getattr(file, "peek", None)
    try:
        return peek is not None and bytes(peek(4)[:4]) == MAGIC
    except (OSError, EOFError, zlib.error):  # packed and damaged: whoever reads its lines says so
        return False


def write_rows(
    path: str | os.PathLike[str], header: str, parts: Sequence[str], rows: Iterable[dict[str, Any]], batch: Batch
) -> None:
    """Write the rows of `apportion.credit.rows` beside the columns of their rollouts, the header as metadata."""
    listed = list(rows)
    narrowed(lambda columns: _write(path, header, parts, listed, batch, columns), batch)


def _write(
    path: str | os.PathLike[str],
    header: str,
    parts: Sequence[str],
    rows: Sequence[dict[str, Any]],
    batch: Batch,
    narrow: Collection[str],
) -> None:
    pa, _ = arrow("writing Parquet", "parquet")
    rollouts, ours = schema_of(pa, narrow), _schema(pa, parts)
    schema = pa.schema([*rollouts, *ours], metadata={KEY: header.encode("utf-8")})
    first = 0
    with kept_room() as room, parquet_writer(path, schema, _numbers(parts)) as writer:
        for columns in record_batches(pa, rollouts, batch, rows=ROWS, weight=WEIGHT, room=room):
            mine = rows[first : first + columns.num_rows]
            arrays = [*columns.columns, *(_column(pa, field, mine, first) for field in ours)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
            first += columns.num_rows


def read_rows(path: str | os.PathLike[str], raw: BinaryIO) -> tuple[str, Iterator[tuple[str, Any]]]:
    """The header, and the rows with their places.

    Raises:
        FormatError: damaged, or not a credit file.
    """
    pa, pq = arrow("reading Parquet", "parquet")
    try:
        file = pq.ParquetFile(raw)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: not a Parquet file that can be read ({first_line(error)})") from None
    metadata = file.schema_arrow.metadata or {}
    if KEY not in metadata:
        raise FormatError(f"{path}: a Parquet file, but not of credit; rollouts are read by apportion.read")
    schema = file.schema_arrow
    for name in ("advantage", "step", "tokens_unit", "tokens_length"):
        if name not in schema.names:
            raise FormatError(f"{path}: there is no column {name!r}; write the file again")
    if OLD not in schema.names:
        check_steps(pa, schema, path)
    return metadata[KEY].decode("utf-8", "replace"), _rows(pa, file, path)


def _schema(pa: ModuleType, parts: Sequence[str]) -> Any:
    """The columns of credit."""
    floats, flags, ints = pa.list_(pa.float64()), pa.list_(pa.bool_()), pa.list_(pa.int64())
    fields = [
        ("advantage", floats),
        ("known", flags),
        ("train", flags),
        ("train_tokens", flags),
        ("step", ints),
        ("tokens_unit", ints),
        ("tokens_length", ints),
        ("columns_json", pa.string()),
    ]
    if parts:
        fields.insert(1, ("parts", pa.struct([(name, floats) for name in parts])))
    return pa.schema(fields)


def _numbers(parts: Sequence[str]) -> list[str]:
    """Leaves of numbers; those of credit recur, as rewards and groups do."""
    names = ("advantage", "step", "tokens_unit", "tokens_length", *(f"parts.{name}" for name in parts))
    return [f"{name}.list.element" for name in names]


def _column(pa: ModuleType, field: Any, rows: Sequence[dict[str, Any]], first: int) -> Any:
    if field.name == "columns_json":
        texts = [
            to_json(row["columns"], f"trajectory {first + k}") if "columns" in row else None
            for k, row in enumerate(rows)
        ]
        return pa.array(texts, type=field.type)
    if field.name == "parts":
        each = [lists_of(pa, [row["parts"][part.name] for row in rows], part.type) for part in field.type]
        return pa.StructArray.from_arrays(each, fields=list(field.type))
    at = {"tokens_unit": 0, "tokens_length": 1}.get(field.name)
    arrays = [row.get(field.name) if at is None else row["tokens"][:, at] for row in rows]
    return lists_of(pa, arrays, field.type)


def _rows(pa: ModuleType, file: Any, path: str | os.PathLike[str]) -> Iterator[tuple[str, Any]]:
    number = 0
    batches = file.iter_batches(batch_size=ROWS, use_threads=False)
    while True:
        try:
            batch = next(batches, None)
            trajectories = [] if batch is None else _trajectories(pa, batch, path, number)
            credits = [] if batch is None else _credit(pa, batch)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FormatError(f"{path}, from row {number} on: damaged ({first_line(error)})") from None
        if batch is None:
            return
        for trajectory, credit in zip(trajectories, credits, strict=True):
            at = f"{path}, row {number}"
            yield at, _row(trajectory, credit, at)
            number += 1


def _trajectories(pa: ModuleType, batch: Any, path: str | os.PathLike[str], first: int) -> list[Any]:
    """Trajectories, or what old files have instead: their JSON text."""
    if OLD in batch.schema.names:
        return list(batch.column(OLD).to_pylist())
    return list(found(pa, batch, path, first))


def _credit(pa: ModuleType, batch: Any) -> list[dict[str, Any]]:
    """The fields of each row, None where null; lists of numbers are views of one array."""
    out: list[dict[str, Any]] = [{} for _ in range(len(batch))]
    for name in ("advantage", "known", "train", "train_tokens", "step", "tokens_unit", "tokens_length"):
        if name in batch.schema.names:
            column = batch.column(name)
            lists = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
            for row, value in zip(out, views(column) if lists else column.to_pylist(), strict=True):
                row[name] = value
    for name in ("parts", "columns_json"):
        if name in batch.schema.names:
            for row, value in zip(out, batch.column(name).to_pylist(), strict=True):
                row[name] = value
    return out


def _row(trajectory: Any, row: dict[str, Any], at: str) -> dict[str, Any]:
    if isinstance(trajectory, FormatError):
        raise trajectory
    unit, length = row.pop("tokens_unit"), row.pop("tokens_length")
    if unit is None or length is None or len(unit) != len(length):
        raise FormatError(f"{at}: tokens_unit and tokens_length must be lists of one length; write the file again")
    old = isinstance(trajectory, str)
    row["trajectory"] = parse(trajectory.encode("utf-8"), f"{at}: {OLD}") if old else trajectory
    row["tokens"] = np.column_stack([unit, length])
    text = row.pop("columns_json", None)
    if text is not None:
        row["columns"] = parse(str(text).encode("utf-8"), f"{at}: columns_json")
    return row
