"""Rows of a Parquet file as the JSON values that a line of JSONL would hold, a few at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from apportion.adapters.readers.json_stream import LONGEST, Item, Items
from apportion.data.columnar import arrow, first_line
from apportion.errors import FormatError

AT_A_TIME = 64


def columns_of(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Names of the columns.

    Raises:
        FormatError: the file is damaged. MissingExtra: pyarrow is not installed.
    """
    with _opened(path) as (_, file):
        return tuple(file.schema_arrow.names)


def stream_rows(path: str | os.PathLike[str]) -> Items:
    """Yield every row; what is null in it is None.

    Raises:
        FormatError: the file is damaged, or unpacks to more in one piece than a reader holds.
        MissingExtra: pyarrow is not installed.
    """
    with _opened(path) as (pa, file):
        number = 0
        for g in range(file.num_row_groups):
            size = file.metadata.row_group(g).total_byte_size
            if size > 4 * LONGEST:
                raise FormatError(f"{path}: row group {g} unpacks to {size >> 20} MiB; write smaller row groups")
            try:
                for batch in file.iter_batches(batch_size=AT_A_TIME, row_groups=[g], use_threads=False):
                    batch.validate(full=True)  # offsets and text are taken at their word otherwise
                    rows = batch.to_pylist()
                    for k, row in enumerate(rows, number + 1):
                        yield Item(plain(row), f"{path}, row {k}")
                    number += len(rows)
            except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
                if isinstance(error, FormatError):
                    raise
                raise FormatError(f"{path}, from row {number + 1} on: damaged ({first_line(error)})") from None


def plain(value: Any) -> Any:
    """Arrow's Python values as JSON has them: times and numbers of other kinds as text, maps as objects."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        if value and all(isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in value):
            return {name: plain(item) for name, item in value}
        return [plain(item) for item in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[Any, Any]]:
    """pyarrow, and the file; whatever is wrong with its footer as our error."""
    pa, pq = arrow("reading Parquet", "parquet")
    try:
        file = pq.ParquetFile(os.fspath(path))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"{path}: not a Parquet file that can be read ({first_line(error)})") from None
    with file:
        yield pa, file
