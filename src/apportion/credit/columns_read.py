"""Credit in columns read back, together with the rollouts it is about."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from apportion.credit.columns import KEY, SCHEMA
from apportion.credit.credit import Credit
from apportion.credit.rebuild import tupled
from apportion.data import Batch
from apportion.data.check import without_repeated_ids
from apportion.data.columnar import arrow, first_line
from apportion.data.jsonl import parse
from apportion.data.parquet import stream_parquet
from apportion.data.skipped import Skipped
from apportion.errors import ApportionError, FormatError, other_version
from apportion.numerics import Array, FloatArray
from apportion.units import CUTS, Units

FIELDS = {"method": str, "params": dict, "version": str, "cut": dict, "units": dict, "rollouts": dict}
"""What the header of such a file holds, beside its schema."""


def is_columns(path: str | os.PathLike[str]) -> bool:
    """A Parquet file of credit without rollouts."""
    pa, pq = arrow("reading Parquet", "parquet")
    try:
        return KEY in (pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return False  # the ordinary reader says what is wrong


def read_columns(path: str | os.PathLike[str]) -> Credit:
    """The credit and its rollouts, which are read from where they were, seen from the file.

    Raises:
        FormatError: damaged; the rollouts are not there, or are others; the cut made again is another.
    """
    pa, pq = arrow("reading Parquet", "parquet")
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: not a Parquet file that can be read ({first_line(error)})") from None
    header = _header(parse(table.schema.metadata[KEY], f"{path}, metadata"), path)
    row = _column(table, "row", path).to_numpy()
    batch = _batch(_rollouts(header["rollouts"], path), row, path)
    options = {name: value for name, value in header["units"].items() if name != "level"}
    try:
        units: Units = CUTS[header["units"]["level"]](batch, **options)
        return _credit(table, units, header, path)
    except FormatError:
        raise
    except (ApportionError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: {error}; write the file again") from None


def _header(header: Any, path: str | os.PathLike[str]) -> dict[str, Any]:
    schema = header.get("schema") if isinstance(header, dict) else None
    if not isinstance(header, dict) or schema != SCHEMA:
        raise FormatError(f"{path}: {other_version(schema, SCHEMA, 'write it again')}")
    for name, kind in FIELDS.items():
        if not isinstance(header.get(name), kind):
            raise FormatError(f"{path}: header field {name!r} is missing or no {kind.__name__}; write the file again")
    return header


def _rollouts(told: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    place = Path(path).parent / str(told.get("path"))
    if not place.is_file():
        raise FormatError(f"{path}: its rollouts are not at {place}; bring them there, or credit them again")
    with open(place, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != told.get("sha256"):
            raise FormatError(f"{path}: the rollouts at {place} are not those that were credited; credit them again")
    return place


def _batch(place: Path, row: Array, path: str | os.PathLike[str]) -> Batch:
    kept = list(stream_parquet(place, skip_bad=Skipped()))
    if len(kept) != len(row):
        raise FormatError(f"{path}: {len(row)} rows of credit for {len(kept)} rollouts at {place}; credit them again")
    return Batch.from_trajectories(without_repeated_ids(kept))


def _credit(table: Any, units: Units, header: Mapping[str, Any], path: str | os.PathLike[str]) -> Credit:
    size_N = np.bincount(units.traj_of_S, minlength=len(units.batch))
    step = _flat(_column(table, "step", path), size_N, f"{path}: step")
    first_N = np.searchsorted(units.batch.traj_of_S, np.arange(len(units.batch)))
    if not np.array_equal(step, units.step_of_S - first_N[units.traj_of_S]):
        raise FormatError(f"{path}: the cut made again differs from the one that was credited; credit them again")
    kind = table.schema.field("parts").type if "parts" in table.schema.names else []
    parts: dict[str, FloatArray] = {}
    for k in range(len(kind) if not isinstance(kind, list) else 0):
        lists = table.column("parts").combine_chunks()
        values = lists.flatten()[k]
        parts[kind[k].name] = _filled(values, size_N, 0.0, f"{path}: part {kind[k].name!r}")
    tokens = _column(table, "train_tokens", path)
    train_T = None
    if tokens.null_count < len(tokens):
        token_N = np.bincount(units.batch.traj_of_T, minlength=len(units.batch))
        train_T = _flat(tokens, token_N, f"{path}: train_tokens")
    cut = header["cut"]
    return Credit(
        _flat(_column(table, "advantage", path), size_N, f"{path}: advantage"),
        units,
        known_S=_filled(_column(table, "known", path), size_N, True, f"{path}: known"),
        train_S=_filled(_column(table, "train", path), size_N, True, f"{path}: train"),
        train_T=train_T,
        parts=parts,
        method=header["method"],
        params=tupled(header["params"]),
        cut={} if cut == header["units"] else tupled(cut),
    )


def _column(table: Any, name: str, path: str | os.PathLike[str]) -> Any:
    if name not in table.schema.names:
        raise FormatError(f"{path}: there is no column {name!r}; write the file again")
    return table.column(name).combine_chunks()


def _flat(lists: Any, size_N: Array, at: str) -> Array:
    """The entries end to end, one for each unit of each row."""
    if lists.null_count or not np.array_equal(lists.value_lengths().to_numpy(zero_copy_only=False), size_N):
        raise FormatError(f"{at}: not one entry per unit; write the file again")
    values: Array = lists.flatten().to_numpy(zero_copy_only=False)
    return values


def _filled(lists: Any, size_N: Array, absent: Any, at: str) -> Array:
    """The same, rows that are null filled with one value."""
    told_N = lists.is_valid().to_numpy(zero_copy_only=False)
    out = np.full(int(size_N.sum()), absent)
    out[np.repeat(told_N, size_N)] = _flat(lists.drop_null(), size_N[told_N], at)
    return out
