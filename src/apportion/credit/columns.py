"""Credit by itself, in columns: what `apportion assign` writes for a folder of rollouts, one file for each file.

    row  id  group  outcome  advantage: list<double>  parts: struct<NAME: list<double>, …>
    known: list<bool>  train: list<bool>  train_tokens: list<bool>  step: list<int32>

One row per trajectory, in the order of the rollouts; ``row`` is its row there. The lists have one entry per unit
(``train_tokens`` one per token); ``known`` and ``train`` are null where all are True, ``train_tokens`` where the credit
has no mask of tokens, ``parts`` where it has none or nothing is known. The metadata hold the method, its parameters,
the cut, and the name, size and digest of the rollouts, so that `read_credit` finds them and refuses others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, BinaryIO

import numpy as np

from apportion.credit.credit import Credit
from apportion.data.record import to_json
from apportion.errors import DataError
from apportion.numerics import Array, BoolArray, FloatArray, IntArray

KEY = b"apportion.credit.columns"
SCHEMA = "apportion.credit.columns/1"


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Credit of some trajectories, flat, and which rows they are.

    Attributes:
        cut: level and options of the units.
        row: row of each trajectory in the file of rollouts. id, group, outcome: Arrow arrays, as they stand there.
        units: number of units of each trajectory. step: first step of each unit, counted inside the trajectory.
        advantage, known, train, parts: of each unit; ``parts`` None where nothing is known.
        train_tokens: of each token, and the number of tokens of each trajectory; None = no mask of tokens.
    """

    cut: Mapping[str, Any]
    row: IntArray
    id: Any
    group: Any
    outcome: Any
    units: IntArray
    step: IntArray
    advantage: FloatArray
    known: BoolArray
    train: BoolArray
    parts: Mapping[str, FloatArray] | None
    train_tokens: tuple[BoolArray, IntArray] | None = None


def piece_of(credit: Credit, rows: IntArray, id: Any, group: Any, outcome: Any) -> Piece:
    """The piece of a credit; the arguments after it have one entry for each of its trajectories."""
    units, n = credit.units, len(rows)
    for name, part in credit.parts.items():
        if not np.isfinite(part).all():
            raise DataError(f"part {name!r} holds {part[~np.isfinite(part)][0]}; a credit file keeps finite numbers")
    first_step_N = np.searchsorted(units.batch.traj_of_S, np.arange(n))
    tokens = None
    if credit.train_T is not None:
        tokens = (credit.train_T, np.bincount(units.batch.traj_of_T, minlength=n))
    return Piece(
        cut={"level": units.level, **units.options},
        row=rows,
        id=id,
        group=group,
        outcome=outcome,
        units=np.bincount(units.traj_of_S, minlength=n),
        step=units.step_of_S - first_step_N[units.traj_of_S],
        advantage=credit.advantage_S,
        known=np.asarray(credit.known_S),
        train=np.asarray(credit.train_S),
        parts=credit.parts,
        train_tokens=tokens,
    )


class ColumnsWriter:
    """Writes pieces as row groups. The parts must be the same in all; pieces that say None get nulls.

    ``header`` holds what `CREDIT_FIELDS` name; the units and the parts are those of ``like``.
    """

    def __init__(self, file: BinaryIO, header: Mapping[str, Any], like: Piece | None) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._pa, self._parts = pa, tuple(like.parts or ()) if like is not None else ()
        whole = {"schema": SCHEMA, **header, "units": dict(like.cut) if like is not None else header["cut"]}
        self._schema = _schema(pa, self._parts).with_metadata({KEY: to_json(whole, "header").encode()})
        self._writer = pq.ParquetWriter(
            file,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=["group"],
            write_statistics=["row", "group"],
        )

    def write(self, piece: Piece) -> None:
        """One row group."""
        pa = self._pa
        if piece.parts is not None and tuple(piece.parts) != self._parts:
            raise DataError(
                f"rows from {int(piece.row[0])} on have the parts {', '.join(piece.parts)}, the rows before "
                f"{', '.join(self._parts)}; the method decides that by what it finds, so credit the rollouts at once"
            )
        offset = np.append(0, np.cumsum(piece.units)).astype(np.int32)
        columns = {
            "row": pa.array(piece.row),
            "id": piece.id.cast(pa.string()),
            "group": piece.group.cast(pa.string()),
            "outcome": piece.outcome.cast(pa.float64()),
            "advantage": pa.ListArray.from_arrays(offset, pa.array(piece.advantage)),
            "known": _flags(pa, piece.known, offset),
            "train": _flags(pa, piece.train, offset),
            "train_tokens": pa.nulls(len(piece.row), pa.list_(pa.bool_())),
            "step": pa.ListArray.from_arrays(offset, pa.array(piece.step.astype(np.int32))),
        }
        if piece.train_tokens is not None:
            tokens, size = piece.train_tokens
            edge = np.append(0, np.cumsum(size)).astype(np.int32)
            columns["train_tokens"] = pa.ListArray.from_arrays(edge, pa.array(tokens))
        if self._parts:
            kind = self._schema.field("parts").type
            columns["parts"] = (
                pa.nulls(len(piece.row), kind)
                if piece.parts is None
                else pa.StructArray.from_arrays(
                    [pa.ListArray.from_arrays(offset, pa.array(part)) for part in piece.parts.values()],
                    fields=list(kind),
                )
            )
        arrays = [columns[name] for name in self._schema.names]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema), row_group_size=1 << 30)

    def close(self) -> None:
        """Write the end of the file."""
        self._writer.close()


def _schema(pa: ModuleType, parts: Sequence[str]) -> Any:
    floats, flags = pa.list_(pa.float64()), pa.list_(pa.bool_())
    fields = [
        ("row", pa.int64()),
        ("id", pa.string()),
        ("group", pa.string()),
        ("outcome", pa.float64()),
        ("advantage", floats),
        ("known", flags),
        ("train", flags),
        ("train_tokens", flags),
        ("step", pa.list_(pa.int32())),
    ]
    if parts:
        fields.insert(5, ("parts", pa.struct([(name, floats) for name in parts])))
    return pa.schema(fields)


def _flags(pa: ModuleType, flag: Array, offset: Array) -> Any:
    """A list for each row that has a False, null for the others."""
    size = np.diff(offset)
    row_of = np.repeat(np.arange(len(size)), size)
    mixed = np.bincount(row_of[~flag], minlength=len(size)) > 0
    if not mixed.any():
        return pa.nulls(len(size), pa.list_(pa.bool_()))
    edge = np.append(0, np.cumsum(np.where(mixed, size, 0))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(edge, mask=np.append(~mixed, False)), pa.array(flag[mixed[row_of]]))
