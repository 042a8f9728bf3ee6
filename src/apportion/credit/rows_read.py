"""A credit from the header and the rows of its file, every field checked; `rows` writes them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from apportion.credit.credit import Cost, Credit
from apportion.credit.rebuild import UnitsPiece, UnitsPlan, join_units, tupled
from apportion.credit.rows import SCHEMA
from apportion.data import Batch, Trajectory
from apportion.data.record import from_record
from apportion.errors import DataError, FormatError
from apportion.numerics import Array, FloatArray, IntArray

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


def checked_header(header: Any, at: str) -> dict[str, Any]:
    """The header, where it is one of a credit file that this version reads.

    Raises:
        FormatError: it is not; ``at`` says where it stands.
    """
    schema = header.get("schema") if isinstance(header, dict) else None
    name, _, version = schema.partition("/") if isinstance(schema, str) else ("", "", "")
    ours, _, newest = SCHEMA.partition("/")
    if name == "apportion.rollouts":
        what = f"the file holds {schema!r}, rollouts and not credit"
        raise FormatError(f"{at}: {what}; `apportion assign` makes credit of them, apportion.read reads them")
    if name != ours:
        what = f"the file holds {schema!r}" if name else "no header, so this is not a credit file"
        raise FormatError(f"{at}: {what}, expected {SCHEMA!r}; rollouts are read by apportion.read")
    if not version.isdecimal() or int(version) > int(newest):
        raise FormatError(f"{at}: schema {schema!r}, and this apportion reads up to {SCHEMA!r}; update apportion")
    for field, kind in HEADER_FIELDS.items():
        if not isinstance(header.get(field), kind):
            raise FormatError(f"{at}: the header lacks {field!r} ({kind.__name__}); write the file again")
    return dict(header)


def credit_from(header: dict[str, Any], rows: Iterable[tuple[str, Any]], path: str | os.PathLike[str]) -> Credit:
    """The credit, its units and their rollouts.

    Args:
        header: as `checked_header` gives it.
        rows: each with the place where it stands.
        path: of the file.

    Raises:
        FormatError: file, place and reason.
    """
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
        trajectory = row["trajectory"]
        trajectories.append(trajectory if isinstance(trajectory, Trajectory) else from_record(trajectory, at))
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
            length = int(piece.tokens[:, 1].sum())
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
    tokens, step, columns = _pairs(row.get("tokens")), _whole(row.get("step")), row.get("columns") or {}
    if tokens is None or step is None or not isinstance(columns, dict):
        raise FormatError(f"{at}: tokens must be [unit, length] pairs and step whole numbers; write the file again")
    return UnitsPiece(tokens, step, columns)


def _pairs(values: Any) -> IntArray | None:
    """Pairs of whole numbers as (N, 2), None where they are something else."""
    if isinstance(values, list):
        if not set(map(type, values)) <= {list} or not set(map(len, values)) <= {2}:
            return None
        values = list(itertools.chain.from_iterable(values))
    whole = _whole(values)
    return None if whole is None else whole.reshape(-1, 2)


def _whole(values: Any) -> IntArray | None:
    if isinstance(values, np.ndarray) and values.dtype.kind == "i":
        return values.astype(np.int64)
    if isinstance(values, list) and set(map(type, values)) <= {int} and max(map(abs, values), default=0) < 2**62:
        return np.array(values, dtype=np.int64)
    return None


def _floats(values: Any, size: int, at: str) -> FloatArray:
    listed = isinstance(values, list) and set(map(type, values)) <= {int, float}
    listed = listed or (isinstance(values, np.ndarray) and values.dtype.kind == "f")
    if not listed:
        raise FormatError(f"{at} must be a list of numbers; write the file again")
    if len(values) != size:
        raise FormatError(f"{at} has {len(values)} entries for {size} units; give one per unit")
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        raise FormatError(f"{at} holds an integer that no float can hold; write the file again") from None


def _flags(values: Any, size: int, at: str, per: str = "unit") -> Array:
    if values is None:
        return np.ones(size, dtype=bool)
    listed = isinstance(values, list) and set(map(type, values)) <= {bool}
    listed = listed or (isinstance(values, np.ndarray) and values.dtype.kind == "b")
    if not listed or len(values) != size:
        raise FormatError(f"{at} must be {size} booleans, one per {per}; write the file again")
    return np.array(values, dtype=bool)


def _joined(arrays: list[Any]) -> Array:
    return np.concatenate(arrays) if arrays else np.zeros(0)
