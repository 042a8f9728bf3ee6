"""Credit files: the rollouts and their credit together, so that one file can be viewed, checked and trained on.

    {"schema": "apportion.credit/1", "method": "gigpo", "params": {…}, "level": "step", "parts": ["episode", "step"], …}
    {"trajectory": {"id": "7", "steps": […]}, "advantage": [0.5, -0.1], "parts": {…}, "tokens": [[-1, 9], [0, 3]], …}

JSONL has one line per trajectory, Parquet one row with the same fields (numbers as lists of doubles, the trajectory
as JSON text). ``tokens`` are runs (unit, length) over the trajectory's tokens, unit -1 where nothing was sampled;
``step`` is the first step of each unit. ``known`` and ``train`` are left out where all units are, ``train_tokens`` (one
flag per token) where the credit has no mask of tokens. Both files give the
same `Credit` back, bit by bit; sequences inside params and options come back as tuples.
"""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from apportion.credit.columns_read import is_columns, read_columns
from apportion.credit.credit import Cost, Credit
from apportion.credit.parquet import is_parquet, read_rows, write_rows
from apportion.credit.rebuild import UnitsPiece, UnitsPlan, join_units, plan_units, split_units, tupled
from apportion.data import Batch, Trajectory
from apportion.data.atomic import atomic_write
from apportion.data.check import where
from apportion.data.compress import compressed, open_read
from apportion.data.jsonl import LONGEST_LINE, parse
from apportion.data.record import check_json, from_record, to_json, to_record
from apportion.errors import ConfigError, DataError, FormatError
from apportion.numerics import Array, FloatArray

SCHEMA = "apportion.credit/1"
SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")
HEADER_FIELDS = {
    "schema": str,
    "method": str,
    "params": dict,
    "version": str,
    "rollouts": str,
    "level": str,
    "options": dict,
    "built_in": bool,
    "absent": list,
    "given": list,
    "parts": list,
    "notes": dict,
    "cost": dict,
    "cut": dict,
    "trajectories": int,
}


def check_credit_path(path: str | os.PathLike[str]) -> str:
    """The path as text; a ConfigError unless `write_credit` knows its ending. For asking before long work."""
    name = os.fspath(path)
    if not name.endswith(SUFFIXES):
        raise ConfigError(f"{name}: a credit file ends in {', '.join(SUFFIXES)}; choose one of these names")
    return name


def write_credit(path: str | os.PathLike[str], credit: Credit) -> None:
    """Write credit with its rollouts; the file is whole or absent.

    Args:
        path: ends in .jsonl, .jsonl.gz, .jsonl.zst or .parquet, which decides the format.
        credit: what `apportion.assign` returned.

    Raises:
        ConfigError: another ending.
        DataError: the credit holds what JSON cannot keep.
        MissingExtra: Parquet or Zstandard, and pyarrow is not installed.
    """
    name = check_credit_path(path)
    if not isinstance(credit, Credit):
        raise DataError(f"write_credit writes a Credit, got {type(credit).__name__}; call apportion.assign first")
    plan = plan_units(credit.units)
    header, rows = _header(credit, plan), _rows(credit, plan)
    if name.endswith(".parquet"):
        write_rows(path, to_json(header, "header"), header["parts"], rows)
        return
    with atomic_write(path) as plain, compressed(plain, name) as file:
        file.write(to_json(header, "header").encode() + b"\n")
        for n, row in enumerate(rows):
            file.write(to_json(row, f"trajectory {n}").encode() + b"\n")


def read_credit(path: str | os.PathLike[str]) -> Credit:
    """Read what `write_credit` wrote, or `apportion assign` for a folder; the bytes say which format it is.

    A file of a folder holds no rollouts: they are read from where they were, seen from the file.

    Raises:
        FormatError: file, place and reason: not a credit file, cut short, changed, or of a newer schema.
        MissingExtra: Parquet or Zstandard, and pyarrow is not installed.
    """
    with open_read(path) as file:
        if is_parquet(file):
            if is_columns(path):
                return read_columns(path)
            text, rows = read_rows(path, file)
            header = _checked_header(parse(text.encode("utf-8"), f"{path}, metadata"), f"{path}, metadata")
            return _credit(header, rows, path, "row")
        lines = _lines(file, path)
        first = next(lines, None)
        if first is None:
            raise FormatError(f"{path}: an empty file; a credit file starts with a header")
        header = _checked_header(first[1], first[0])
        return _credit(header, lines, path, "line")


# --- writing ----------------------------------------------------------------------------------------------------


def _header(credit: Credit, plan: UnitsPlan) -> dict[str, Any]:
    record = credit.record()
    header = {
        "schema": SCHEMA,
        "method": credit.method,
        "params": _keepable(dict(credit.params), "credit.params"),
        "version": record["version"],
        "rollouts": record["rollouts"],
        "level": plan.level,
        "options": _keepable(dict(plan.options), "units.options"),
        "built_in": plan.built_in,
        "absent": list(plan.absent),
        "given": list(plan.given),
        "parts": list(credit.parts),
        "notes": _keepable(dict(credit.notes), "credit.notes"),
        "cost": dataclasses.asdict(credit.cost),
        "cut": _keepable(dict(credit.cut), "credit.cut"),
        "trajectories": len(credit.units.batch),
    }
    check_json(header, "credit")
    return header


def _rows(credit: Credit, plan: UnitsPlan) -> Iterator[dict[str, Any]]:
    units = credit.units
    end_N = np.cumsum(np.bincount(units.traj_of_S, minlength=len(units.batch))).tolist()
    token_end_N = np.cumsum(np.bincount(units.batch.traj_of_T, minlength=len(units.batch))).tolist()
    known, train = np.asarray(credit.known_S), np.asarray(credit.train_S)
    for name, part in credit.parts.items():
        if not np.isfinite(part).all():
            raise DataError(f"part {name!r} holds {part[~np.isfinite(part)][0]}; a credit file keeps finite numbers")
    for n, piece in enumerate(split_units(units, plan)):
        s = slice(end_N[n - 1] if n else 0, end_N[n])
        trajectory = units.batch.trajectories[n]
        row: dict[str, Any] = {
            "trajectory": to_record(trajectory, where(n, trajectory)),
            "advantage": credit.advantage_S[s].tolist(),
        }
        if not known.all():
            row["known"] = known[s].tolist()
        if not train.all():
            row["train"] = train[s].tolist()
        if credit.train_T is not None:
            row["train_tokens"] = credit.train_T[token_end_N[n - 1] if n else 0 : token_end_N[n]].tolist()
        if credit.parts:
            row["parts"] = {name: part[s].tolist() for name, part in credit.parts.items()}
        row |= {"tokens": piece.tokens, "step": piece.step}
        if piece.columns:
            row["columns"] = piece.columns
        yield row


def _keepable(value: Any, at: str) -> Any:
    """JSON values of a parameter, NumPy's scalars as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {key: _keepable(item, f"{at}[{key!r}]") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_keepable(item, at) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise DataError(f"{at} is a {type(value).__name__}, which a credit file cannot keep; give numbers and texts")


# --- reading ----------------------------------------------------------------------------------------------------


def _lines(file: BinaryIO, path: str | os.PathLike[str]) -> Iterator[tuple[str, Any]]:
    number = 0
    while True:
        number += 1
        at = f"{path}, line {number}"
        try:
            line = file.readline(LONGEST_LINE + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise FormatError(f"{at}: the compressed data are damaged ({error}); write the file again") from None
        if not line:
            return
        if len(line) > LONGEST_LINE:
            raise FormatError(f"{at}: longer than {LONGEST_LINE >> 20} MiB; give one trajectory per line")
        if line.strip():
            yield at, parse(line.removeprefix(b"\xef\xbb\xbf"), at, line.endswith(b"\n"))


def _checked_header(header: Any, at: str) -> dict[str, Any]:
    schema = header.get("schema") if isinstance(header, dict) else None
    name, _, version = schema.partition("/") if isinstance(schema, str) else ("", "", "")
    ours, _, newest = SCHEMA.partition("/")
    if name != ours:
        what = f"the file holds {schema!r}" if name else "no header, so this is not a credit file"
        raise FormatError(f"{at}: {what}, expected {SCHEMA!r}; rollouts are read by apportion.read")
    if not version.isdecimal() or int(version) > int(newest):
        raise FormatError(f"{at}: schema {schema!r}, and this apportion reads up to {SCHEMA!r}; update apportion")
    for field, kind in HEADER_FIELDS.items():
        if not isinstance(header.get(field), kind):
            raise FormatError(f"{at}: the header lacks {field!r} ({kind.__name__}); write the file again")
    return dict(header)


def _credit(header: dict[str, Any], rows: Any, path: str | os.PathLike[str], unit: str) -> Credit:
    plan = UnitsPlan(
        header["level"],
        tupled(header["options"]),
        header["built_in"],
        tuple(header["absent"]),
        tuple(header["given"]),
    )
    names = tuple(header["parts"])
    trajectories: list[Trajectory] = []
    pieces: list[UnitsPiece] = []
    columns: dict[str, list[FloatArray]] = {"advantage": [], **{f"part {name}": [] for name in names}}
    flags: dict[str, list[Array]] = {"known": [], "train": []}
    tokens: list[Array] = []
    for at, row in rows:
        if not isinstance(row, dict) or "trajectory" not in row or "advantage" not in row:
            raise FormatError(f"{at}: no trajectory with its advantage; write the file again")
        trajectories.append(from_record(row["trajectory"], at))
        piece = _piece(row, at)
        size = len(piece.step)
        pieces.append(piece)
        columns["advantage"].append(_floats(row["advantage"], size, f"{at}: advantage"))
        parts = row.get("parts") or {}
        for name in names:
            columns[f"part {name}"].append(_floats(parts.get(name), size, f"{at}: part {name!r}"))
        for name in flags:
            flags[name].append(_flags(row.get(name), size, f"{at}: {name}"))
        if row.get("train_tokens") is not None:
            length = sum(run[1] for run in piece.tokens)
            tokens.append(_flags(row["train_tokens"], length, f"{at}: train_tokens", "token"))
    if len(trajectories) != header["trajectories"]:
        raise FormatError(
            f"{path}: {len(trajectories)} of {header['trajectories']} trajectories; the file was cut short, "
            "copy or write it again"
        )
    if tokens and len(tokens) != len(trajectories):
        raise FormatError(
            f"{path}: {len(tokens)} of {len(trajectories)} trajectories have train_tokens; "
            "the file was changed, write it again"
        )
    try:
        batch = Batch.from_trajectories(trajectories)
        units = join_units(batch, plan, pieces, str(path))
        credit = Credit(
            _joined(columns["advantage"]),
            units,
            known_S=_joined(flags["known"]).astype(bool),
            train_S=_joined(flags["train"]).astype(bool),
            train_T=_joined(tokens).astype(bool) if tokens else None,
            parts={name: _joined(columns[f"part {name}"]) for name in names},
            notes=header["notes"],
            cost=Cost(**header["cost"]),
            method=header["method"],
            params=tupled(header["params"]),
            cut=tupled(header["cut"]),
        )
    except FormatError:
        raise
    except (DataError, TypeError) as error:
        raise FormatError(f"{path}: {error}") from None
    record = credit.record()
    # another version may hash other columns, so that its digest says nothing
    if header["version"] == record["version"] and header["rollouts"] != record["rollouts"]:
        raise FormatError(f"{path}: the rollouts are not those that were credited (digests differ); write it again")
    return credit


def _piece(row: dict[str, Any], at: str) -> UnitsPiece:
    tokens, step, columns = row.get("tokens"), row.get("step"), row.get("columns") or {}
    whole = isinstance(tokens, list) and all(
        isinstance(run, list) and len(run) == 2 and all(_is_int(x) for x in run) for run in tokens
    )
    if not whole or not isinstance(step, list) or not all(_is_int(x) for x in step) or not isinstance(columns, dict):
        raise FormatError(f"{at}: tokens must be [unit, length] pairs and step whole numbers; write the file again")
    assert isinstance(tokens, list)
    return UnitsPiece(tokens, step, columns)


def _floats(values: Any, size: int, at: str) -> FloatArray:
    if not isinstance(values, list) or not all(isinstance(x, int | float) and not isinstance(x, bool) for x in values):
        raise FormatError(f"{at} must be a list of numbers; write the file again")
    if len(values) != size:
        raise FormatError(f"{at} has {len(values)} entries for {size} units; give one per unit")
    return np.array(values, dtype=np.float64)


def _flags(values: Any, size: int, at: str, per: str = "unit") -> Array:
    if values is None:
        return np.ones(size, dtype=bool)
    if not isinstance(values, list) or len(values) != size or not all(isinstance(x, bool) for x in values):
        raise FormatError(f"{at} must be {size} booleans, one per {per}; write the file again")
    return np.array(values, dtype=bool)


def _joined(arrays: list[Any]) -> Array:
    return np.concatenate(arrays) if arrays else np.zeros(0)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62
