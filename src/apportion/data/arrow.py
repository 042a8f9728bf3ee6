"""Arrow IPC: the columns of `columnar` as they lie in memory; the fastest of the files, and the largest.

Written in record batches as trajectories come; any Arrow library reads it, memory-mapped if it likes.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Iterator

from apportion.data.atomic import atomic_write
from apportion.data.columnar import arrow, first_line, schema_of
from apportion.data.columnar_read import check_columns, found
from apportion.data.columnar_write import record_batches
from apportion.data.compress import open_read
from apportion.data.narrow import narrowed
from apportion.data.room import kept_room
from apportion.data.skipped import Skipped, kept
from apportion.data.trajectory import Trajectory
from apportion.errors import FormatError

ROWS, WEIGHT = 1024, 1 << 21
"""A record batch ends at this many trajectories, or at this many tokens and characters: what a reader must hold. The
system takes a column of megabytes in one piece at nearly half the price of the same column in small ones."""

GATHERED = 1 << 14
"""Bytes that are given to the file at once; larger pieces go there as they are."""


def read_arrow(path: str | os.PathLike[str], *, skip_bad: bool | Skipped = False) -> list[Trajectory]:
    """All trajectories of a file; see `stream_arrow`."""
    return list(stream_arrow(path, skip_bad=skip_bad))


def stream_arrow(path: str | os.PathLike[str], *, skip_bad: bool | Skipped = False) -> Iterator[Trajectory]:
    """Read one trajectory after the other, one record batch in memory.

    Args:
        path: an Arrow IPC file that `write_arrow` made, or another tool from one.
        skip_bad: False raises at the first bad row, True leaves bad rows out and warns with their number and
            reasons at the end, a `Skipped` leaves them out and counts them there.

    Raises:
        FormatError: file, row, reason; not an Arrow IPC file, or not of our schema.
        MissingExtra: pyarrow is not installed.
    """
    return kept(_items(path), path, skip_bad)


def write_arrow(path: str | os.PathLike[str], trajectories: Iterable[Trajectory]) -> int:
    """Write trajectories by record batches as they come; the file is whole or absent.

    Returns:
        How many were written.

    Raises:
        DataError: a trajectory breaks a precondition; nothing is written then.
        MissingExtra: pyarrow is not installed.
    """
    return narrowed(lambda columns: _write(path, trajectories, columns), trajectories)


def _write(path: str | os.PathLike[str], trajectories: Iterable[Trajectory], narrow: Collection[str]) -> int:
    pa, ipc = arrow("writing Arrow IPC", "ipc")
    schema = schema_of(pa, narrow)
    count = 0
    with kept_room() as room, atomic_write(path) as file:
        # a record batch is a hundred pieces, most of them a few bytes: Python's file would be called for each
        gathered = pa.BufferedOutputStream(pa.PythonFile(file, "w"), GATHERED)
        try:
            with ipc.new_file(gathered, schema) as writer:
                for batch in record_batches(pa, schema, trajectories, rows=ROWS, weight=WEIGHT, room=room):
                    writer.write_batch(batch)
                    count += batch.num_rows
        finally:
            gathered.detach()  # writes the rest; left alone, it would try to when the file is closed, and complain
    return count


def _items(path: str | os.PathLike[str]) -> Generator[Trajectory | FormatError, None, None]:
    """A trajectory or what is wrong with it, for every row."""
    pa, ipc = arrow("reading Arrow IPC", "ipc")
    broken = (pa.ArrowException, OSError, UnicodeDecodeError)
    with open_read(path) as raw:
        try:
            file = ipc.open_file(raw)
        except broken as error:
            raise FormatError(f"{path}: not an Arrow IPC file that can be read ({first_line(error)})") from None
        check_columns(pa, file.schema, path, "an Arrow IPC")
        row = 0
        for k in range(file.num_record_batches):
            try:
                batch = file.get_batch(k)
                batch.validate(full=True)  # offsets and text are taken at their word otherwise
                items = list(found(pa, batch, path, row))
            except broken as error:
                raise FormatError(f"{path}, from row {row} on: damaged ({first_line(error)})") from None
            yield from items
            row += len(items)
