"""The loop of every format whose file is a row of JSON records: one record, one trajectory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apportion.adapters.readers.json_stream import stream_json
from apportion.adapters.readers.registry import Context, Path, Trajectories
from apportion.data import Trajectory
from apportion.data.check import check_trajectory
from apportion.errors import DataError, FormatError

Convert = Callable[[Any, str, Context], Trajectory]
"""A record, where it stands, and where to report → its trajectory. Raises `FormatError`."""


def of_records(
    convert: Convert, *, whole: Callable[[Any], bool] | None = None
) -> Callable[[Path, Context], Trajectories]:
    """The ``read`` of a format, from a function for one record."""

    def read(path: Path, context: Context) -> Trajectories:
        for item in stream_json(path, whole=whole):
            yield item if isinstance(item, FormatError) else converted(convert, item.value, item.at, context)

    return read


def converted(convert: Convert, value: Any, at: str, context: Context) -> Trajectory | FormatError:
    """The checked trajectory of a record, or what is wrong with it."""
    try:
        trajectory = convert(value, at, context)
        check_trajectory(trajectory, at)
    except FormatError as error:
        return error
    except DataError as error:
        return FormatError(str(error))
    except RecursionError:
        return FormatError(f"{at}: nested too deep to be read; flatten it")
    return trajectory
