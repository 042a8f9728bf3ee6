"""Record batches of Arrow, in the columns of `columnar`, to trajectories."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from apportion.data.columnar import (
    KEY,
    OLD_COLUMNS,
    STEP_COLUMNS,
    TOKENS,
    TRAJECTORY_COLUMNS,
    column_of,
    first_line,
    schema_of,
)
from apportion.data.jsonl import check_schema, parse
from apportion.data.record import from_record, looks_like
from apportion.data.trajectory import Trajectory
from apportion.errors import FormatError


def found(pa: ModuleType, batch: Any, path: str | os.PathLike[str], row: int) -> Iterator[Trajectory | FormatError]:
    """A trajectory or what is wrong with it, for every row of a batch; ``row`` is the number of the first."""
    for k, record in enumerate(_records(pa, batch)):
        try:
            yield _trajectory(record, f"{path}, row {row + k}")
        except FormatError as error:
            yield error


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
    check_steps(pa, schema, path)


def check_steps(pa: ModuleType, schema: Any, path: str | os.PathLike[str]) -> None:
    """Raise unless there is a column of steps with fields of ours."""
    if "steps" not in schema.names:
        raise FormatError(f"{path}: there is no column 'steps'; a trajectory needs its steps")
    steps = schema.field("steps").type
    lists = pa.types.is_list(steps) or pa.types.is_large_list(steps)
    if not lists or not pa.types.is_struct(steps.value_type):
        raise FormatError(f"{path}: the column 'steps' is {steps}; it should be a list of structs")
    names = [field.name for field in steps.value_type]
    if OLD_COLUMNS in names and "columns" in names:
        raise FormatError(f"{path}, steps: there are both 'columns' and {OLD_COLUMNS!r}; keep one of them")
    known = [column_of(name, kind) for name, kind in STEP_COLUMNS.items()]
    _known([name for name in names if name != OLD_COLUMNS], known, f"{path}, steps: ")


def _known(names: Sequence[str], known: Sequence[str], at: str) -> None:
    for name in names:
        if name not in known:
            raise FormatError(f"{at}there is no column {name!r}; the columns are {', '.join(known)}")


def _records(pa: ModuleType, batch: Any) -> list[dict[str, Any]]:
    """Plain fields of every row, absent where null; token columns are views of one array."""
    ours = schema_of(pa)
    nested = batch.column("steps")
    inner = [field.name for field in nested.type.value_type]
    types = {field.name: field.type for field in ours.field("steps").type.value_type}
    steps = _fields(
        nested.flatten().flatten(),
        inner,
        {**STEP_COLUMNS, "columns": "json"} if OLD_COLUMNS in inner else STEP_COLUMNS,
        {**types, OLD_COLUMNS: pa.string()},
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
    for row, own in zip(rows, _parts(nested, steps), strict=True):
        row["steps"] = own
    return rows


def _fields(
    arrays: Sequence[Any], names: Sequence[str], columns: dict[str, str], types: dict[str, Any], size: int
) -> list[dict[str, Any]]:
    given = dict(zip(names, arrays, strict=True))
    out: list[dict[str, Any]] = [{} for _ in range(size)]
    for name, kind in columns.items():
        column = column_of(name, kind)
        if column not in given:
            continue
        array = given[column].cast(types[column])
        for fields, value in zip(out, _values(array, kind), strict=True):
            if value is not None:
                fields[name] = value
    return out


def _values(array: Any, kind: str) -> list[Any]:
    if kind == "named":
        return _pairs(array)
    return views(array) if kind in TOKENS else list(array.to_pylist())


def views(lists: Any) -> list[Any]:
    """One NumPy view per list; None where the list is null."""
    flat = lists.flatten()
    if flat.null_count:  # never in files of ours; as lists, so that the row at fault can be named
        return list(lists.to_pylist())
    return _parts(lists, flat.to_numpy(zero_copy_only=False))


def _parts(lists: Any, values: Any) -> list[Any]:
    """What of the values, which stand end to end, is in each list; None where the list is null."""
    out, first = [], 0
    for size in lists.value_lengths().to_pylist():
        out.append(None if size is None else values[first : first + size])
        first += size or 0
    return out


def _pairs(lists: Any) -> list[list[tuple[Any, Any]] | None]:
    """Names with their arrays; None where the list is null."""
    names, values = lists.flatten().flatten()
    return _parts(lists, list(zip(names.to_pylist(), views(values), strict=True)))


def _trajectory(fields: dict[str, Any], at: str) -> Trajectory:
    exact = fields.pop("exact", None)
    if exact is not None:
        return from_record(parse(exact.encode("utf-8"), f"{at}, exact_json"), at)
    for name in ("meta", "outcomes"):
        _unpack(fields, name, at)
    for s, step in enumerate(fields["steps"] or ()):
        for name in ("extra", "rewards"):
            _unpack(step, name, f"{at}, step {s}")
        if "columns" in step:
            step["columns"] = _by_name(step["columns"], f"{at}, step {s}")
    return from_record(fields, at)


def _by_name(columns: str | list[tuple[Any, Any]], at: str) -> Any:
    """Arrays by name, or what an old file says of them, for `from_record` to judge."""
    if isinstance(columns, str):
        return parse(columns.encode("utf-8"), f"{at}: {OLD_COLUMNS}")
    out = dict(columns)
    if len(out) < len(columns):
        raise FormatError(f"{at}: columns holds a name twice; give each per-token column a name of its own")
    return out


def renewed(pa: ModuleType, old: Any, path: str | os.PathLike[str]) -> Any:
    """The array of ``columns`` for one of `OLD_COLUMNS`."""
    at = f"{path}: {OLD_COLUMNS}"
    told = [None if text is None else parse(text.encode("utf-8"), at) for text in old.to_pylist()]
    try:
        held = [None if named is None else [{"name": k, "values": v} for k, v in named.items()] for named in told]
        return pa.array(held, type=schema_of(pa).field("steps").type.value_type.field("columns").type)
    except (AttributeError, TypeError, pa.ArrowException) as error:
        raise FormatError(f"{at} should hold lists of numbers by name ({first_line(error)})") from None


def _unpack(fields: dict[str, Any], name: str, at: str) -> None:
    if name in fields:
        fields[name] = parse(fields[name].encode("utf-8"), f"{at}: {name}_json")
