"""The loop of every format whose file is a row of JSON records: one record, one trajectory or several."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

from apportion.adapters.readers.json_stream import Items, stream_json
from apportion.adapters.readers.registry import Context, Path, Trajectories
from apportion.adapters.readers.rows import stream_rows
from apportion.data import Trajectory
from apportion.data.check import check_trajectory
from apportion.data.compress import open_read
from apportion.data.record import check_json
from apportion.errors import DataError, FormatError

Convert = Callable[[Any, str, Context], Trajectory | list[Trajectory]]
"""A record, where it stands, and where to report → its trajectory, or all of them. Raises `FormatError`."""
Split = Callable[[Any, str, Context], Iterator[tuple[Any, str]]]
"""A value of the file → the records in it, each with its place. Raises `FormatError`."""

PARQUET = b"PAR1"


def stream_values(path: Path, *, whole: Callable[[Any], bool] | None = None) -> Items:
    """The JSON values of a file, or the rows of a Parquet file."""
    return stream_rows(path) if start_of(path, len(PARQUET)) == PARQUET else stream_json(path, whole=whole)


def start_of(path: Path, size: int) -> bytes:
    """The first bytes of a file, unpacked.

    Raises:
        FormatError: there is no such file, or its compressed data are damaged.
    """
    with open_read(path) as file:
        try:
            return file.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise FormatError(f"{path}: the compressed data are damaged ({error})") from None


def of_records(
    convert: Convert, *, split: Split | None = None, whole: Callable[[Any], bool] | None = None
) -> Callable[[Path, Context], Trajectories]:
    """The ``read`` of a format.

    Args:
        convert: makes the trajectories of one record. Where it raises a `DataError`, such as a `FormatError`, the
            record is left out, whole; any other exception ends the reading.
        split: finds the records in one value of the file; None = the value is the record.
        whole: as for `stream_json`.
    """

    def read(path: Path, context: Context) -> Trajectories:
        for item in stream_values(path, whole=whole):
            if isinstance(item, FormatError):
                yield item
            elif split is None:
                yield from all_of(convert, item.value, item.at, context)
            else:
                yield from _split(split, convert, item.value, item.at, context)

    return read


def _split(split: Split, convert: Convert, value: Any, at: str, context: Context) -> Trajectories:
    found = 0
    try:
        for record, place in split(value, at, context):
            found += 1
            yield from all_of(convert, record, place, context)
    except FormatError as error:
        yield error
    else:
        if not found:
            yield FormatError(f"{at}: no rollout in it; remove it")


def all_of(convert: Convert, value: Any, at: str, context: Context) -> Trajectories:
    """The checked trajectories of a record, or what is wrong with it."""
    made = _made(convert, value, at, context)
    if isinstance(made, FormatError | Trajectory):
        yield made
    else:
        yield from made


def _made(convert: Convert, value: Any, at: str, context: Context) -> Trajectory | list[Trajectory] | FormatError:
    try:
        made = convert(value, at, context)
        for trajectory in made if isinstance(made, list) else [made]:
            check_trajectory(trajectory, at)
            check_json(trajectory.meta, f"{at}: meta")
            for step in trajectory.steps:
                if step.extra:
                    check_json(step.extra, f"{at}: extra")
    except DataError as error:  # a step does not know where it stands
        return FormatError(str(error) if at in str(error) else f"{at}: {error}")
    except RecursionError:
        return FormatError(f"{at}: nested too deep to be read; flatten it")
    return made
