"""The Parquet form of a credit file: one row per trajectory, numbers as columns that any tool can read."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, BinaryIO

from apportion.data.atomic import atomic_write
from apportion.data.jsonl import parse
from apportion.data.record import to_json
from apportion.errors import FormatError, missing_extra

KEY = b"apportion.credit"
MAGIC = b"PAR1"
ROWS, WEIGHT = 1024, 1 << 24
"""A row group ends at this many trajectories, or at this many characters of theirs."""


def is_parquet(file: BinaryIO) -> bool:
    """The file starts as Parquet does."""
    peek = getattr(file, "peek", None)
    try:
        return peek is not None and bytes(peek(4)[:4]) == MAGIC
    except (OSError, EOFError, zlib.error):  # packed and damaged: whoever reads its lines says so
        return False


def write_rows(path: str | os.PathLike[str], header: str, parts: Sequence[str], rows: Iterable[dict[str, Any]]) -> None:
    """Write the rows of `apportion.credit.rows` as columns, the header as metadata."""
    pa, pq = _arrow("writing Parquet", instead="give a name that ends in .jsonl")
    schema = _schema(pa, parts).with_metadata({KEY: header.encode("utf-8")})
    waiting: list[dict[str, Any]] = []
    weight = 0
    with atomic_write(path) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for n, row in enumerate(rows):
            waiting.append(_flat(row, f"trajectory {n}"))
            weight += len(waiting[-1]["trajectory_json"])
            if len(waiting) >= ROWS or weight >= WEIGHT:
                writer.write_table(pa.Table.from_pylist(waiting, schema=schema))
                waiting, weight = [], 0
        if waiting:
            writer.write_table(pa.Table.from_pylist(waiting, schema=schema))


def read_rows(path: str | os.PathLike[str], raw: BinaryIO) -> tuple[str, Iterator[tuple[str, Any]]]:
    """The header, and the rows with their places.

    Raises:
        FormatError: damaged, or not a credit file.
    """
    pa, pq = _arrow("reading Parquet")
    try:
        file = pq.ParquetFile(raw)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: not a Parquet file that can be read ({_first_line(error)})") from None
    metadata = file.schema_arrow.metadata or {}
    if KEY not in metadata:
        raise FormatError(f"{path}: a Parquet file, but not of credit; rollouts are read by apportion.read")
    names = {field.name for field in file.schema_arrow}
    for name in ("trajectory_json", "advantage", "step", "tokens_unit", "tokens_length"):
        if name not in names:
            raise FormatError(f"{path}: there is no column {name!r}; write the file again")
    return metadata[KEY].decode("utf-8", "replace"), _rows(pa, file, path)


def _schema(pa: ModuleType, parts: Sequence[str]) -> Any:
    floats, flags, ints = pa.list_(pa.float64()), pa.list_(pa.bool_()), pa.list_(pa.int64())
    fields = [
        ("id", pa.string()),
        ("group", pa.string()),
        ("outcome", pa.float64()),
        ("advantage", floats),
        ("known", flags),
        ("train", flags),
        ("train_tokens", flags),
        ("step", ints),
        ("tokens_unit", ints),
        ("tokens_length", ints),
        ("trajectory_json", pa.string()),
        ("columns_json", pa.string()),
    ]
    if parts:
        fields.insert(4, ("parts", pa.struct([(name, floats) for name in parts])))
    return pa.schema(fields)


def _flat(row: dict[str, Any], at: str) -> dict[str, Any]:
    trajectory = row["trajectory"]
    return {
        "id": _shown(trajectory.get("id")),
        "group": _shown(trajectory.get("group")),
        "outcome": trajectory.get("outcome"),
        "advantage": row["advantage"],
        "parts": row.get("parts"),
        "known": row.get("known"),
        "train": row.get("train"),
        "train_tokens": row.get("train_tokens"),
        "step": row["step"],
        "tokens_unit": [unit for unit, _ in row["tokens"]],
        "tokens_length": [length for _, length in row["tokens"]],
        "trajectory_json": to_json(trajectory, at),
        "columns_json": to_json(row["columns"], at) if "columns" in row else None,
    }


def _rows(pa: ModuleType, file: Any, path: str | os.PathLike[str]) -> Iterator[tuple[str, Any]]:
    number = 0
    batches = file.iter_batches(batch_size=ROWS, use_threads=False)
    while True:
        try:
            batch = next(batches, None)
            records = None if batch is None else batch.to_pylist()
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FormatError(f"{path}, from row {number} on: damaged ({_first_line(error)})") from None
        if records is None:
            return
        for record in records:
            at = f"{path}, row {number}"
            yield at, _nested(record, at)
            number += 1


def _nested(record: dict[str, Any], at: str) -> dict[str, Any]:
    unit, length = record["tokens_unit"], record["tokens_length"]
    if not isinstance(unit, list) or not isinstance(length, list) or len(unit) != len(length):
        raise FormatError(f"{at}: tokens_unit and tokens_length must be lists of one length; write the file again")
    row = {name: record.get(name) for name in ("advantage", "parts", "known", "train", "train_tokens", "step")}
    row["tokens"] = [list(pair) for pair in zip(unit, length, strict=True)]
    for name in ("trajectory", "columns"):
        text = record.get(f"{name}_json")
        if text is not None:
            row[name] = parse(str(text).encode("utf-8"), f"{at}: {name}_json")
    return row


def _shown(text: str | None) -> str | None:
    return None if text is None else text.encode("utf-8", "replace").decode("utf-8")


def _arrow(what: str, *, instead: str = "") -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise missing_extra(what, "pyarrow", "parquet", instead=instead) from None
    return pa, pq


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
