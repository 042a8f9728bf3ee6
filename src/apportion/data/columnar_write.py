"""Trajectories to record batches of Arrow, in the columns of `columnar`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np

from apportion.data.batch import Batch
from apportion.data.check import check_trajectory, where
from apportion.data.columnar import STEP_COLUMNS, TOKENS, TRAJECTORY_COLUMNS, column_of
from apportion.data.record import NAMED, by_name, check_json, to_json, to_record
from apportion.data.trajectory import Step, Trajectory
from apportion.errors import DataError

_DTYPE: dict[str, type[np.generic]] = {
    "int32": np.int32, "int64": np.int64, "float": np.float32, "double": np.float64, "bool": np.bool_
}  # fmt: skip
"""By Arrow's name; its own `to_pandas_dtype` wants pandas in the oldest version."""


def record_batches(
    pa: ModuleType, schema: Any, trajectories: Iterable[Trajectory], *, rows: int, weight: int
) -> Iterator[Any]:
    """Batches of up to ``rows`` trajectories, or of about ``weight`` tokens and characters.

    They are checked on the way, but for those of a `Batch`, which were when it was built.

    Raises:
        DataError: a trajectory breaks a precondition.
    """
    checked = isinstance(trajectories, Batch)
    waiting: list[Trajectory] = []
    first = heavy = 0
    for n, trajectory in enumerate(trajectories):
        if not checked:
            check_trajectory(trajectory, where(n, trajectory))
        waiting.append(trajectory)
        heavy += _weight(trajectory)
        if len(waiting) >= rows or heavy >= weight:
            yield _batch(pa, schema, waiting, first)
            waiting, first, heavy = [], n + 1, 0
    if waiting:
        yield _batch(pa, schema, waiting, first)


def _batch(pa: ModuleType, schema: Any, trajectories: Sequence[Trajectory], first: int) -> Any:
    try:
        return _columns(pa, schema, trajectories, first, [None] * len(trajectories))
    except UnicodeEncodeError:  # one of them holds half a surrogate pair; that is rare, and known once it was tried
        named = [(where(first + n, trajectory), trajectory) for n, trajectory in enumerate(trajectories)]
        exact = [None if _is_utf8(trajectory) else to_json(to_record(trajectory, at), at) for at, trajectory in named]
        return _columns(pa, schema, trajectories, first, exact)


def _columns(
    pa: ModuleType, schema: Any, trajectories: Sequence[Trajectory], first: int, exact: Sequence[str | None]
) -> Any:
    """One record batch; texts that UTF-8 cannot hold are told apart only where some trajectory is given ``exact``."""
    shown = exact.count(None) < len(exact)
    offsets = np.cumsum([0] + [len(trajectory.steps) for trajectory in trajectories]).astype(np.int32)
    steps = [step for trajectory in trajectories for step in trajectory.steps]

    def at_trajectory(n: int) -> str:  # places are spelled out only where they are needed
        return where(first + n, trajectories[n])

    def at_step(s: int) -> str:
        n = int(np.searchsorted(offsets, s, side="right")) - 1
        return f"{at_trajectory(n)}, step {s - offsets[n]}"

    nested = schema.field("steps").type
    inner = [
        _filled(pa, values, name, kind, nested.value_type.field(column_of(name, kind)).type, shown, at_step)
        for (name, kind), values in zip(STEP_COLUMNS.items(), _values(steps, STEP_COLUMNS), strict=True)
    ]
    own = {name: kind for name, kind in TRAJECTORY_COLUMNS.items() if name != "exact"}
    filled = {
        name: _filled(pa, values, name, kind, schema.field(column_of(name, kind)).type, shown, at_trajectory)
        for (name, kind), values in zip(own.items(), _values(trajectories, own), strict=True)
    }
    filled["exact"] = pa.array(exact, type=schema.field("exact_json").type)
    structs = pa.StructArray.from_arrays(inner, fields=list(nested.value_type))
    lists = pa.ListArray.from_arrays(pa.array(offsets), structs, type=nested)
    return pa.RecordBatch.from_arrays([*(filled[name] for name in TRAJECTORY_COLUMNS), lists], schema=schema)


def _values(holders: Sequence[Any], names: Iterable[str]) -> Iterator[Sequence[Any]]:
    """Each attribute of all holders, in one go over them: most columns are empty, and those shall cost little."""
    return zip(*map(attrgetter(*names), holders), strict=True)


def _filled(
    pa: ModuleType, values: Sequence[Any], name: str, kind: str, type: Any, shown: bool, at: Callable[[int], str]
) -> Any:
    """One column of all steps or trajectories."""
    if kind in TOKENS:
        return lists_of(pa, values, type)
    if kind == "named":
        return _named(pa, values, type)
    if kind != "bool" and not any(values) and (kind == "json" or values.count(None) == len(values)):
        return pa.nulls(len(values), type)
    if kind == "json" or (shown and kind in ("string", "strings")):
        values = [_cell(value, name, kind, at, n) for n, value in enumerate(values)]
    return pa.array(values, type=type)


def lists_of(pa: ModuleType, arrays: Sequence[Any], kind: Any) -> Any:
    """A column of lists: all numbers end to end, and where each list ends. No number becomes a Python object."""
    told = [array for array in arrays if array is not None]
    if not told:
        return pa.nulls(len(arrays), kind)
    # in memory of NumPy, which asks for large pages: in Arrow's own pool this takes longer unless the pool is warm
    dtype = _DTYPE[str(kind.value_type)]
    with np.errstate(over="raise", under="raise"):  # see `narrow`
        numbers = np.concatenate(told, dtype=dtype, casting="same_kind")
    if dtype is np.bool_:
        values = pa.array(numbers)  # Arrow has eight of them in a byte
    else:
        values = pa.Array.from_buffers(kind.value_type, len(numbers), [None, pa.py_buffer(numbers)])
    return _nested(pa, [None if array is None else array.size for array in arrays], values, kind)


def _nested(pa: ModuleType, size: Sequence[int | None], values: Any, kind: Any) -> Any:
    """The values, which stand end to end, as lists of these sizes; null where the size is None."""
    offset = np.zeros(len(size) + 1, dtype=np.int32)
    np.cumsum([n or 0 for n in size], out=offset[1:])
    absent = np.array([n is None for n in size] + [False])
    return pa.ListArray.from_arrays(pa.array(offset, mask=absent if absent.any() else None), values, type=kind)


def _named(pa: ModuleType, held: Sequence[Mapping[str, Any]], kind: Any) -> Any:
    """A column of arrays by name; null where there are none."""
    if not any(held):
        return pa.nulls(len(held), kind)
    struct = kind.value_type
    names = pa.array([name for arrays in held for name in arrays], type=pa.string())
    values = lists_of(pa, [array for arrays in held for array in arrays.values()], struct.field("values").type)
    entries = pa.StructArray.from_arrays([names, values], fields=list(struct))
    return _nested(pa, [len(arrays) or None for arrays in held], entries, kind)


def _cell(value: Any, name: str, kind: str, at: Callable[[int], str], n: int) -> Any:
    if kind == "json":
        if not value:
            return None
        if name in NAMED:
            return json.dumps(by_name(value), allow_nan=False)
        try:
            check_json(dict(value), name)
        except DataError as error:
            raise DataError(f"{at(n)}: {error}") from None
        return json.dumps(dict(value), allow_nan=False)
    if value is None:
        return None
    return _shown(value) if kind == "string" else [_shown(item) for item in value]


def _shown(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


def _is_utf8(trajectory: Trajectory) -> bool:
    holders: list[tuple[Step | Trajectory, dict[str, str]]] = [(trajectory, TRAJECTORY_COLUMNS)]
    holders += [(step, STEP_COLUMNS) for step in trajectory.steps]
    for holder, columns in holders:
        for name, kind in columns.items():
            value = getattr(holder, name) if kind in ("string", "strings") else None
            for text in (value or ()) if kind == "strings" else (value or "",):
                if not text.isascii() and _shown(text) != text:
                    return False
    return True


def _weight(trajectory: Trajectory) -> int:
    """Tokens and characters, roughly what a trajectory costs a reader."""
    out = 0
    for step in trajectory.steps:
        out += len(step.observation or "") + len(step.action or "") + len(step.state or "")
        if step.prompt_ids is not None:
            out += len(step.prompt_ids)
        if step.ids is not None:
            out += len(step.ids) * (1 + len(step.columns))
    return out
