"""Rows of a Parquet file in chunks that end where a group ends, so that each chunk can be credited by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from apportion.data.columnar import first_line
from apportion.data.columnar_read import check_columns
from apportion.errors import FormatError
from apportion.numerics import IntArray

STEPS, BYTES = 1 << 17, 1 << 26
"""A chunk ends with the group in which it reaches this many steps, or bytes in memory."""
ROWS = 4096
"""Rows decoded at a time, fewer where they are long."""
GROWTH = 4
"""Memory for each byte of a page before its encoding; differences in few bits become whole numbers."""
BUFFER = 1 << 20


def open_parquet(pa: ModuleType, pq: ModuleType, path: str) -> Any:
    """The file, its columns checked; read through a small buffer, never a whole row group at once.

    Raises:
        FormatError: damaged, not Parquet, or not of our schema.
    """
    try:
        file = pq.ParquetFile(path, buffer_size=BUFFER, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: not a Parquet file that can be read ({first_line(error)})") from None
    check_columns(pa, file.schema_arrow, path, "a Parquet")
    return file


def chunks(
    pa: ModuleType,
    file: Any,
    path: str,
    columns: Sequence[str] | None,
    *,
    start: int = 0,
    steps: int = 0,
    size: int = 0,
) -> Iterator[tuple[int, Any]]:
    """The number of the first row and a record batch, group-complete as long as rows of a group are neighbours.

    Args:
        file: see `open_parquet`. path: its name in messages.
        columns: leaves to read, see `leaves_of`; None = all.
        start: row to begin with. steps, size: where a chunk ends; 0 = STEPS and BYTES.
    """
    waiting: list[Any] = []
    size = size or BYTES
    first, held = start, Held(steps or STEPS, size)
    last_group: Any = None
    for batch in batches(pa, file, path, columns, start, size):
        group = groups_of(pa, batch)
        starts = run_starts(group)
        if waiting and group[0].is_valid and group[0] == last_group:
            starts = starts[1:]
        last_group = group[len(group) - 1]
        if held.enough and len(starts):
            at = int(starts[0])
            yield first, joined(pa, [*waiting, batch.slice(0, at)])
            first += sum(map(len, waiting)) + at
            waiting, batch, starts = [], batch.slice(at), starts - at
            held.nothing()
        waiting.append(batch)
        held.add(batch)
        if held.enough and len(starts) and (at := int(starts[-1])) > 0:
            yield first, joined(pa, [*waiting[:-1], batch.slice(0, at)])
            first += sum(map(len, waiting[:-1])) + at
            waiting = [batch.slice(at)]
            held.nothing()
            held.add(waiting[0])
    if waiting:
        yield first, joined(pa, waiting)


class Held:
    """How much is waiting for the end of its group."""

    def __init__(self, steps: int, size: int) -> None:
        self._limits, self._now = (steps, size), (0, 0)

    def add(self, batch: Any) -> None:
        """One record batch more."""
        steps, size = self._now
        self._now = (steps + len(batch.column("steps").flatten()), size + batch.nbytes)

    def nothing(self) -> None:
        """All is given out."""
        self._now = (0, 0)

    @property
    def enough(self) -> bool:
        """A limit is reached."""
        return any(now >= limit for now, limit in zip(self._now, self._limits, strict=True))


def batches(
    pa: ModuleType, file: Any, path: str, columns: Sequence[str] | None, start: int = 0, size: int = BYTES
) -> Iterator[Any]:
    """Record batches of few enough rows to be held, from row ``start`` on; none is empty.

    Raises:
        FormatError: damaged.
    """
    row = 0
    try:
        for k in range(file.num_row_groups):
            told = file.metadata.row_group(k)
            if row + told.num_rows <= start:
                row += told.num_rows
                continue
            per_row = GROWTH * _read_bytes(told, columns) / told.num_rows
            rows = int(min(max(size / 4 / max(per_row, 1), 1), ROWS))
            for batch in file.iter_batches(batch_size=rows, row_groups=[k], columns=columns, use_threads=False):
                row += len(batch)
                if row > start and len(batch):
                    yield batch.slice(max(start - row + len(batch), 0))
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}, from row {row} on: damaged ({first_line(error)})") from None


def leaves_of(file: Any, rows: Sequence[str], steps: Sequence[str]) -> list[str]:
    """Paths of the leaves of these columns, as far as the file has them; the list of steps is always among them."""
    out, spare = [], ""
    for k in range(len(file.schema)):
        path = file.schema.column(k).path
        parts = path.split(".")
        if parts[0] != "steps":
            out += [path] if parts[0] in rows else []
        elif len(parts) > 3 and parts[3] in steps:
            out.append(path)
        else:
            spare = path if len(parts) == 4 and not spare else spare
    if spare and not any(path.startswith("steps.") for path in out):
        out.append(spare)  # something must tell how many steps there are
    return out


def groups_of(pa: ModuleType, batch: Any) -> Any:
    """The column of groups as text, null where there is none."""
    if "group" not in batch.schema.names:
        return pa.nulls(len(batch), pa.string())
    return batch.column("group").cast(pa.string())


def run_starts(group: Any) -> IntArray:
    """Rows at which another group begins; the first, and every row without a group, among them."""
    if not len(group):
        return np.zeros(0, dtype=np.int64)
    coded = group.dictionary_encode()
    code = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.flatnonzero(np.append(True, (code[1:] != code[:-1]) | (code[1:] < 0)))


def joined(pa: ModuleType, parts: list[Any]) -> Any:
    """One record batch."""
    parts = [part for part in parts if len(part)]
    if len(parts) == 1:
        return parts[0]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def _read_bytes(row_group: Any, columns: Sequence[str] | None) -> int:
    wanted = None if columns is None else set(columns)
    sizes = (row_group.column(k) for k in range(row_group.num_columns))
    return sum(c.total_uncompressed_size for c in sizes if wanted is None or c.path_in_schema in wanted)
