"""A credit as a header and one row a trajectory, which a credit file is made of; `files` says what their fields are.

A row holds the trajectory itself and arrays; `json_row` makes JSON values of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from apportion.credit.credit import Credit
from apportion.credit.rebuild import UnitsPlan, split_units
from apportion.data.check import where
from apportion.data.record import check_json, to_record
from apportion.errors import DataError

SCHEMA = "apportion.credit/1"


def header_of(credit: Credit, plan: UnitsPlan) -> dict[str, Any]:
    """What holds for the whole credit.

    Raises:
        DataError: a parameter or a note that JSON cannot keep.
    """
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


def rows_of(credit: Credit, plan: UnitsPlan) -> Iterator[dict[str, Any]]:
    """Each trajectory with its credit, in order.

    Raises:
        DataError: a part that is not finite.
    """
    units = credit.units
    end_N = np.cumsum(np.bincount(units.traj_of_S, minlength=len(units.batch))).tolist()
    token_end_N = np.cumsum(np.bincount(units.batch.traj_of_T, minlength=len(units.batch))).tolist()
    known, train = np.asarray(credit.known_S), np.asarray(credit.train_S)
    for name, part in credit.parts.items():
        if not np.isfinite(part).all():
            raise DataError(f"part {name!r} holds {part[~np.isfinite(part)][0]}; a credit file keeps finite numbers")
    for n, piece in enumerate(split_units(units, plan)):
        s = slice(end_N[n - 1] if n else 0, end_N[n])
        row: dict[str, Any] = {
            "trajectory": units.batch.trajectories[n],
            "advantage": credit.advantage_S[s],
        }
        if not known.all():
            row["known"] = known[s]
        if not train.all():
            row["train"] = train[s]
        if credit.train_T is not None:
            row["train_tokens"] = credit.train_T[token_end_N[n - 1] if n else 0 : token_end_N[n]]
        if credit.parts:
            row["parts"] = {name: part[s] for name, part in credit.parts.items()}
        row |= {"tokens": piece.tokens, "step": piece.step}
        if piece.columns:
            row["columns"] = piece.columns
        yield row


def json_row(n: int, row: dict[str, Any]) -> dict[str, Any]:
    """JSON values of row ``n``.

    Raises:
        DataError: the trajectory holds what JSON cannot keep.
    """
    out = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in row.items()}
    out["trajectory"] = to_record(row["trajectory"], where(n, row["trajectory"]))
    if "parts" in row:
        out["parts"] = {name: part.tolist() for name, part in row["parts"].items()}
    return out


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
