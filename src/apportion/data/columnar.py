"""Trajectories as columns of Arrow, one row each, their steps a list of structs: what Parquet and Arrow files share.

    id  group  outcome  outcomes_json  final_observation  final_value  reference  meta_json  exact_json
    steps: list<struct<observation, action, prompt_ids: list<int32>, ids, …, logp: list<double>, …, extra_json>>

Null is None, an empty list is an empty list, floats are float64. ``meta_json`` and ``extra_json`` hold the free fields,
``outcomes_json``, ``rewards_json`` and ``columns_json`` numbers by name.
``exact_json`` is null but for a trajectory with text that UTF-8 cannot hold (half a surrogate pair): it then has
the whole record, and the text columns show "?" for those characters.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from types import ModuleType
from typing import Any

import numpy as np

from apportion.data.batch import Batch
from apportion.data.check import check_trajectory, where
from apportion.data.jsonl import check_schema, parse
from apportion.data.record import NAMED, SCHEMA, by_name, check_json, from_record, looks_like, to_json, to_record
from apportion.data.trajectory import Step, Trajectory
from apportion.errors import FormatError, missing_extra

KEY = b"apportion.schema"
TRAJECTORY_COLUMNS = {
    "id": "string",
    "group": "string",
    "outcome": "double",
    "outcomes": "json",
    "final_observation": "string",
    "final_value": "double",
    "reference": "string",
    "meta": "json",
    "exact": "json",
}
STEP_COLUMNS = {
    "observation": "string",
    "action": "string",
    "prompt_ids": "ids",
    "ids": "ids",
    "fresh": "bool",
    "logp": "floats",
    "ref_logp": "floats",
    "entropy": "floats",
    "value": "double",
    "token_values": "floats",
    "columns": "json",
    "reward": "double",
    "rewards": "json",
    "state": "string",
    "terminated": "bool",
    "truncated": "bool",
    "failed": "bool",
    "turn": "int64",
    "agent": "string",
    "actions": "strings",
    "parent": "int64",
    "extra": "json",
}
TOKENS = ("ids", "floats")


def record_batches(
    pa: ModuleType, schema: Any, trajectories: Iterable[Trajectory], *, rows: int, weight: int
) -> Iterator[Any]:
    """Batches of up to ``rows`` trajectories, or of about ``weight`` tokens and characters.

    They are checked on the way, but for those of a `Batch`, which were when it was built.

    Raises:
        DataError: a trajectory breaks a precondition.
    """
    checked = isinstance(trajectories, Batch)
    waiting: list[tuple[str, Trajectory]] = []
    heavy = 0
    for count, trajectory in enumerate(trajectories):
        at = where(count, trajectory)
        if not checked:
            check_trajectory(trajectory, at)
        waiting.append((at, trajectory))
        heavy += _weight(trajectory)
        if len(waiting) >= rows or heavy >= weight:
            yield _batch(pa, schema, waiting)
            waiting, heavy = [], 0
    if waiting:
        yield _batch(pa, schema, waiting)


def found(pa: ModuleType, batch: Any, path: str | os.PathLike[str], row: int) -> Iterator[Trajectory | FormatError]:
    """A trajectory or what is wrong with it, for every row of a batch; ``row`` is the number of the first."""
    for k, record in enumerate(_records(pa, batch)):
        try:
            yield _trajectory(record, f"{path}, row {row + k}")
        except FormatError as error:
            yield error


# --- to columns -------------------------------------------------------------------------------------------------


def schema_of(pa: ModuleType) -> Any:
    """The Arrow schema, our name and version in its metadata."""
    types = {
        "string": pa.string(),
        "double": pa.float64(),
        "int64": pa.int64(),
        "bool": pa.bool_(),
        "ids": pa.list_(pa.int32()),
        "floats": pa.list_(pa.float64()),
        "strings": pa.list_(pa.string()),
        "json": pa.string(),
    }
    step = pa.struct([pa.field(_column(name, kind), types[kind]) for name, kind in STEP_COLUMNS.items()])
    fields = [pa.field(_column(name, kind), types[kind]) for name, kind in TRAJECTORY_COLUMNS.items()]
    return pa.schema([*fields, pa.field("steps", pa.list_(step))], metadata={KEY: SCHEMA.encode()})


def _column(name: str, kind: str) -> str:
    return f"{name}_json" if kind == "json" else name


def _batch(pa: ModuleType, schema: Any, named: Sequence[tuple[str, Trajectory]]) -> Any:
    try:
        return _columns(pa, schema, named, [None] * len(named))
    except UnicodeEncodeError:  # one of them holds half a surrogate pair; that is rare, and known once it was tried
        exact = [None if _is_utf8(trajectory) else to_json(to_record(trajectory, at), at) for at, trajectory in named]
        return _columns(pa, schema, named, exact)


def _columns(pa: ModuleType, schema: Any, named: Sequence[tuple[str, Trajectory]], exact: Sequence[str | None]) -> Any:
    """One record batch; texts that UTF-8 cannot hold are told apart only where some trajectory is given ``exact``."""
    shown = exact.count(None) < len(exact)
    steps = [(f"{at}, step {s}", step) for at, trajectory in named for s, step in enumerate(trajectory.steps)]
    nested = schema.field("steps").type
    inner = [
        _filled(pa, steps, name, kind, nested.value_type.field(_column(name, kind)).type, shown)
        for name, kind in STEP_COLUMNS.items()
    ]
    offsets = np.cumsum([0] + [len(trajectory.steps) for _, trajectory in named]).astype(np.int32)
    columns = [
        pa.array(exact, type=schema.field("exact_json").type)
        if name == "exact"
        else _filled(pa, named, name, kind, schema.field(_column(name, kind)).type, shown)
        for name, kind in TRAJECTORY_COLUMNS.items()
    ]
    structs = pa.StructArray.from_arrays(inner, fields=list(nested.value_type))
    lists = pa.ListArray.from_arrays(pa.array(offsets), structs, type=nested)
    return pa.RecordBatch.from_arrays([*columns, lists], schema=schema)


def _filled(pa: ModuleType, holders: Sequence[tuple[str, Any]], name: str, kind: str, type: Any, shown: bool) -> Any:
    """One column of all steps or trajectories; most are empty, and those cost little."""
    values = list(map(attrgetter(name), [holder for _, holder in holders]))
    if kind in TOKENS:
        return _lists(pa, values, type, np.int32 if kind == "ids" else np.float64)
    if kind != "bool" and not any(values) and (kind == "json" or values.count(None) == len(values)):
        return pa.nulls(len(values), type)
    if kind == "json" or (shown and kind in ("string", "strings")):
        values = [_cell(value, name, kind, at) for value, (at, _) in zip(values, holders, strict=True)]
    return pa.array(values, type=type)


def _lists(pa: ModuleType, arrays: Sequence[Any], kind: Any, dtype: Any) -> Any:
    """A column of lists: all numbers end to end, and where each list ends. No number becomes a Python object."""
    told = [array for array in arrays if array is not None]
    if not told:
        return pa.nulls(len(arrays), kind)
    size = np.array([0 if array is None else len(array) for array in arrays], dtype=np.int64)
    offset = np.append(0, np.cumsum(size)).astype(np.int32)
    absent = np.array([array is None for array in arrays] + [False]) if len(told) < len(arrays) else None
    values = pa.array(np.concatenate(told, dtype=dtype, casting="same_kind"))
    return pa.ListArray.from_arrays(pa.array(offset, mask=absent), values, type=kind)


def _cell(value: Any, name: str, kind: str, at: str) -> Any:
    if kind == "json":
        if not value:
            return None
        if name in NAMED:
            return json.dumps(by_name(value), allow_nan=False)
        check_json(dict(value), f"{at}: {name}")
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
        out += len(step.prompt_ids) if step.prompt_ids is not None else 0
        size = len(step.ids) if step.ids is not None else 0
        out += size + 20 * size * len(step.columns)  # a number as text
    return out


# --- from columns -------------------------------------------------------------------------------------------------


def check_columns(pa: ModuleType, schema: Any, path: str | os.PathLike[str], kind: str) -> None:
    """Raise unless these are our columns; ``kind`` is the file's, with its article."""
    metadata = schema.metadata or {}
    if KEY not in metadata:
        raise FormatError(
            f"{path}: {kind} file, but not of ours (it looks like {looks_like(dict.fromkeys(schema.names))}); "
            "other formats are read by `apportion convert`"
        )
    check_schema(metadata[KEY].decode("utf-8", "replace"), str(path))
    _known(schema.names, schema_of(pa).names, f"{path}: ")
    if "steps" not in schema.names:
        raise FormatError(f"{path}: there is no column 'steps'; a trajectory needs its steps")
    steps = schema.field("steps").type
    lists = pa.types.is_list(steps) or pa.types.is_large_list(steps)
    if not lists or not pa.types.is_struct(steps.value_type):
        raise FormatError(f"{path}: the column 'steps' is {steps}; it should be a list of structs")
    known = [_column(name, kind) for name, kind in STEP_COLUMNS.items()]
    _known([field.name for field in steps.value_type], known, f"{path}, steps: ")


def _known(names: Sequence[str], known: Sequence[str], at: str) -> None:
    for name in names:
        if name not in known:
            raise FormatError(f"{at}there is no column {name!r}; the columns are {', '.join(known)}")


def _records(pa: ModuleType, batch: Any) -> list[dict[str, Any]]:
    """Plain fields of every row, absent where null; token columns are views of one array."""
    ours = schema_of(pa)
    nested = batch.column("steps")
    steps = _fields(
        nested.flatten().flatten(),
        [field.name for field in nested.type.value_type],
        STEP_COLUMNS,
        {field.name: field.type for field in ours.field("steps").type.value_type},
        len(nested.flatten()),
    )
    names = [name for name in batch.schema.names if name != "steps"]
    rows = _fields(
        [batch.column(name) for name in names],
        names,
        TRAJECTORY_COLUMNS,
        {field.name: field.type for field in ours},
        batch.num_rows,
    )
    first = 0
    for row, size in zip(rows, nested.value_lengths().to_pylist(), strict=True):
        row["steps"] = None if size is None else steps[first : first + size]
        first += size or 0
    return rows


def _fields(
    arrays: Sequence[Any], names: Sequence[str], columns: dict[str, str], types: dict[str, Any], size: int
) -> list[dict[str, Any]]:
    given = dict(zip(names, arrays, strict=True))
    out: list[dict[str, Any]] = [{} for _ in range(size)]
    for name, kind in columns.items():
        column = _column(name, kind)
        if column not in given:
            continue
        array = given[column].cast(types[column])
        for fields, value in zip(out, _views(array) if kind in TOKENS else array.to_pylist(), strict=True):
            if value is not None:
                fields[name] = value
    return out


def _views(lists: Any) -> list[Any]:
    """One NumPy view per list; None where the list is null."""
    flat = lists.flatten()
    if flat.null_count:  # never in files of ours; as lists, so that the row at fault can be named
        return list(lists.to_pylist())
    values = flat.to_numpy(zero_copy_only=False)
    out, first = [], 0
    for size in lists.value_lengths().to_pylist():
        out.append(None if size is None else values[first : first + size])
        first += size or 0
    return out


def _trajectory(fields: dict[str, Any], at: str) -> Trajectory:
    exact = fields.pop("exact", None)
    if exact is not None:
        return from_record(parse(exact.encode("utf-8"), f"{at}, exact_json"), at)
    for name in ("meta", "outcomes"):
        _unpack(fields, name, at)
    for s, step in enumerate(fields["steps"] or ()):
        for name in ("extra", "rewards", "columns"):
            _unpack(step, name, f"{at}, step {s}")
    return from_record(fields, at)


def _unpack(fields: dict[str, Any], name: str, at: str) -> None:
    if name in fields:
        fields[name] = parse(fields[name].encode("utf-8"), f"{at}: {name}_json")


def arrow(what: str, part: str) -> tuple[ModuleType, ModuleType]:
    """pyarrow and one of its modules.

    Raises:
        MissingExtra: it is not installed; ``what`` is what it was wanted for.
    """
    try:
        return importlib.import_module("pyarrow"), importlib.import_module(f"pyarrow.{part}")
    except ImportError:
        raise missing_extra(what, "pyarrow", "parquet") from None


def first_line(error: BaseException) -> str:
    """Of what pyarrow says."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
