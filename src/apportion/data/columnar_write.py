"""Trajectories to record batches of Arrow, in the columns of `columnar`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np

from apportion.data.batch import Batch
from apportion.data.check import check_trajectory, where
from apportion.data.columnar import STEP_COLUMNS, TOKENS, TRAJECTORY_COLUMNS, column_of
from apportion.data.record import NAMED, by_name, check_json, to_json, to_record
from apportion.data.room import Room
from apportion.data.trajectory import Step, Trajectory
from apportion.errors import DataError
from apportion.numerics import Array

Empty = Callable[[int, type[np.generic]], Array]
"""An array of this many numbers, of any value."""

_DTYPE: dict[str, type[np.generic]] = {
    "int32": np.int32, "int64": np.int64, "float": np.float32, "double": np.float64, "bool": np.bool_
}  # fmt: skip
"""By Arrow's name; its own `to_pandas_dtype` wants pandas in the oldest version."""


def record_batches(
    pa: ModuleType,
    schema: Any,
    trajectories: Iterable[Trajectory],
    *,
    rows: int,
    weight: int,
    room: Room | None = None,
) -> Iterator[Any]:
    """Batches of up to ``rows`` trajectories, or of about ``weight`` tokens and characters.

    They are checked on the way, but for those of a `Batch`, which were when it was built. With a ``room``, the numbers
    of a batch stand where those of the last one stood: for who is done with it before the next.

    Raises:
        DataError: a trajectory breaks a precondition.
    """
    form = _Form(pa, schema, room)
    checked = isinstance(trajectories, Batch)
    waiting: list[Trajectory] = []
    first = heavy = 0
    for n, trajectory in enumerate(trajectories):
        if not checked:
            check_trajectory(trajectory, where(n, trajectory))
        waiting.append(trajectory)
        heavy += _weight(trajectory)
        if len(waiting) >= rows or heavy >= weight:
            yield form.filled(waiting, first)
            waiting, first, heavy = [], n + 1, 0
    if waiting:
        yield form.filled(waiting, first)


class _Form:
    """Makes record batches of one schema; what that says of each column is looked up once for all of them."""

    def __init__(self, pa: ModuleType, schema: Any, room: Room | None) -> None:
        own = {name: kind for name, kind in TRAJECTORY_COLUMNS.items() if name != "exact"}
        self._pa, self._schema = pa, schema
        self._nested = schema.field("steps").type
        self._inner = list(self._nested.value_type)
        fields = [schema.field(column_of(name, kind)) for name, kind in own.items()]
        self._steps = _Columns(pa, STEP_COLUMNS, self._inner, room)
        self._trajectories = _Columns(pa, own, fields, room)
        self._exact = schema.field(column_of("exact", TRAJECTORY_COLUMNS["exact"])).type

    def filled(self, trajectories: Sequence[Trajectory], first: int) -> Any:
        """A record batch; ``first`` is the place of the first trajectory."""
        try:
            return self._filled(trajectories, first, [None] * len(trajectories))
        except UnicodeEncodeError:  # one of them holds half a surrogate pair; that is rare, and known once it was tried
            named = [(where(first + n, trajectory), trajectory) for n, trajectory in enumerate(trajectories)]
            exact = [None if _is_utf8(one) else to_json(to_record(one, at), at) for at, one in named]
            return self._filled(trajectories, first, exact)

    def _filled(self, trajectories: Sequence[Trajectory], first: int, exact: Sequence[str | None]) -> Any:
        """Texts that UTF-8 cannot hold are told apart only where some trajectory is given ``exact``."""
        pa = self._pa
        shown = exact.count(None) < len(exact)
        ends = np.array([0] + [len(trajectory.steps) for trajectory in trajectories], dtype=np.int32).cumsum()
        steps = [step for trajectory in trajectories for step in trajectory.steps]

        def at_trajectory(n: int) -> str:  # places are spelled out only where they are needed
            return where(first + n, trajectories[n])

        def at_step(s: int) -> str:
            n = int(np.searchsorted(ends, s, side="right")) - 1
            return f"{at_trajectory(n)}, step {s - ends[n]}"

        inner = self._steps.filled(steps, shown, at_step)
        own = self._trajectories.filled(trajectories, shown, at_trajectory)
        structs = pa.StructArray.from_arrays(inner, fields=self._inner)
        lists = pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), structs, type=self._nested)
        return pa.RecordBatch.from_arrays([*own, pa.array(exact, type=self._exact), lists], schema=self._schema)


class _Columns:
    """Makes a column of each attribute of steps, or of trajectories."""

    def __init__(self, pa: ModuleType, kinds: Mapping[str, str], fields: Sequence[Any], room: Room | None) -> None:
        self._pa = pa
        self._get = attrgetter(*kinds)
        self._fields = [(name, kind, field.type) for (name, kind), field in zip(kinds.items(), fields, strict=True)]
        self._empty = {name: np.empty if room is None else partial(room.empty, name) for name in kinds}

    def filled(self, holders: Sequence[Any], shown: bool, at: Callable[[int], str]) -> list[Any]:
        """The columns; all attributes are read in one go, as most columns are empty and shall cost little."""
        columns = zip(*map(self._get, holders), strict=True)
        return [
            self._column(values, name, kind, type, shown, at)
            for (name, kind, type), values in zip(self._fields, columns, strict=True)
        ]

    def _column(
        self, values: Sequence[Any], name: str, kind: str, type: Any, shown: bool, at: Callable[[int], str]
    ) -> Any:
        pa = self._pa
        if kind in TOKENS:
            return lists_of(pa, values, type, self._empty[name])
        if kind == "named":
            return _named(pa, values, type, self._empty[name])
        if kind != "bool" and not any(values) and (kind == "json" or values.count(None) == len(values)):
            return pa.nulls(len(values), type)
        if kind == "json" or (shown and kind in ("string", "strings")):
            values = [_cell(value, name, kind, at, n) for n, value in enumerate(values)]
        return pa.array(values, type=type)


def lists_of(pa: ModuleType, arrays: Sequence[Any], kind: Any, empty: Empty = np.empty) -> Any:
    """A column of lists: all numbers end to end, and where each list ends. No number becomes a Python object."""
    told = [array for array in arrays if array is not None]
    if not told:
        return pa.nulls(len(arrays), kind)
    sizes = [None if array is None else array.size for array in arrays]
    # in memory of NumPy, which asks for large pages: in Arrow's own pool this takes longer unless the pool is warm
    numbers = empty(sum(array.size for array in told), _DTYPE[str(kind.value_type)])
    with np.errstate(over="raise", under="raise"):  # see `narrow`
        np.concatenate(told, out=numbers, casting="same_kind")
    if numbers.dtype == np.bool_:
        values = pa.array(numbers)  # Arrow has eight of them in a byte
    else:
        values = pa.Array.from_buffers(kind.value_type, len(numbers), [None, pa.py_buffer(numbers)])
    return _nested(pa, sizes, values, kind)


def _nested(pa: ModuleType, sizes: Sequence[int | None], values: Any, kind: Any) -> Any:
    """The values, which stand end to end, as lists of these sizes; null where the size is None."""
    ends = np.array([0] + [size or 0 for size in sizes], dtype=np.int32).cumsum().astype(np.int32)
    absent = np.array([*(size is None for size in sizes), False]) if None in sizes else None
    return pa.ListArray.from_arrays(pa.array(ends, mask=absent), values, type=kind)


def _named(pa: ModuleType, held: Sequence[Mapping[str, Any]], kind: Any, empty: Empty) -> Any:
    """A column of arrays by name; null where there are none."""
    if not any(held):
        return pa.nulls(len(held), kind)
    struct = kind.value_type
    names = pa.array([name for arrays in held for name in arrays], type=pa.string())
    told = [array for arrays in held for array in arrays.values()]
    values = lists_of(pa, told, struct.field("values").type, empty)
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
