"""One file of rollouts in, one file of credit out: what a run does with each, here or on another machine."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from apportion.adapters.volume.chunks import chunks, leaves_of, open_parquet
from apportion.adapters.volume.sources import Source, digest, identity
from apportion.assign import assign
from apportion.assign.expression import leaves, parse
from apportion.credit import Credit
from apportion.credit.columns import ColumnsWriter, Piece, piece_of
from apportion.data import Batch, Trajectory
from apportion.data.atomic import atomic_write
from apportion.data.check import without_repeated_ids
from apportion.data.columnar import arrow
from apportion.data.columnar_read import found
from apportion.data.lean import NotLean
from apportion.data.lean_read import ROW_COLUMNS, lean_batch, lean_columns
from apportion.errors import ApportionError, DataError, FormatError
from apportion.methods import get
from apportion.numerics import IntArray
from apportion.numerics.kernels import one_for_all_sizes
from apportion.units import CUTS, Units
from apportion.units.lean import LEVELS, lean_units

ORDINARY_STEPS, ORDINARY_BYTES = 1 << 15, 1 << 24
"""A chunk that is made of trajectories ends sooner: each step is an object then."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done to every file; plain values, so that it can be written down and sent.

    Attributes:
        header: method, params, cut and version, as credit files record them.
        method, params: as given to `assign`. level, options: of the cut. skip_bad: leave broken rows out.
    """

    header: Mapping[str, Any]
    method: str
    params: Mapping[str, Any]
    level: str
    options: Mapping[str, Any]
    skip_bad: bool = False


@dataclass(slots=True)
class Counts:
    """What was in a file, and what became of it."""

    rows: int = 0
    groups: int = 0
    rollouts: int = 0
    skipped: int = 0
    units: int = 0
    unknown_units: int = 0
    dropped_units: int = 0
    lean_rows: int = 0
    problems: list[str] = field(default_factory=list)


def credit_file(source: Source, target: str, plan: Plan, groups: int) -> dict[str, Any]:
    """Credit one file; the target is whole or absent. What the journal keeps of it.

    Raises:
        ApportionError: what is wrong, with the file; nothing is written then.
    """
    told = identity(source.path)
    content = digest(source.path)
    # from folder to folder, so that both can be moved together
    path = Path(os.path.relpath(source.path, Path(target).parent)).as_posix()
    header = {**plan.header, "rollouts": {"path": path, "bytes": told["bytes"], "sha256": content}}
    more: frozenset[str] = frozenset()
    while True:
        counts = Counts(groups=groups)
        try:
            with one_for_all_sizes(), atomic_write(target) as file:
                _write(file, header, _pieces(source.path, plan, counts, more))
                size = file.tell()
                if identity(source.path) != told:
                    raise DataError(f"{source.path} was changed while it was read; credit it when it is written")
            break
        except _MoreColumns as wanted:  # nothing is lost but the time: the file is begun again
            more |= {wanted.column}
    return {
        "name": source.name,
        **told,
        "sha256": content,
        "written_bytes": size,
        "rows": counts.rows,
        "groups": counts.groups,
        "rollouts": counts.rollouts,
        "skipped": counts.skipped,
        "units": counts.units,
        "unknown_units": counts.unknown_units,
        "dropped_units": counts.dropped_units,
        "lean_rows": counts.lean_rows,
        "problems": counts.problems[:3],
    }


class _MoreColumns(Exception):
    def __init__(self, column: str) -> None:
        self.column = column


def _write(file: Any, header: Mapping[str, Any], pieces: Iterator[Piece]) -> None:
    """Pieces of which nothing is known wait until one tells which parts there are."""
    writer: ColumnsWriter | None = None
    waiting: list[Piece] = []
    try:
        for piece in pieces:
            waiting.append(piece)
            if writer is None and piece.parts is not None:
                writer = ColumnsWriter(file, header, piece)
            if writer is not None:
                for each in waiting:
                    writer.write(each)
                waiting = []
        if writer is None:
            writer = ColumnsWriter(file, header, waiting[0] if waiting else None)
            for each in waiting:
                writer.write(each)
    finally:
        if writer is not None:
            writer.close()  # also of a file that is given up: it would else be closed by and by, into another


def _pieces(path: str, plan: Plan, counts: Counts, more: frozenset[str]) -> Iterator[Piece]:
    """Lean as far as that goes, the ordinary way from there on."""
    pa, pq = arrow("reading Parquet", "parquet")
    file = open_parquet(pa, pq, path)
    reads = tuple(dict.fromkeys(name for leaf in leaves(parse(plan.method)) for name in get(leaf.name).reads))
    start = 0
    if plan.level in LEVELS and not plan.options:
        start = yield from _lean_pieces(pa, file, path, plan, reads, counts, more)
    if start < file.metadata.num_rows:
        for first, rows in chunks(pa, file, path, None, start=start, steps=ORDINARY_STEPS, size=ORDINARY_BYTES):
            counts.rows += len(rows)
            yield from _ordinary(pa, first, rows, path, plan, reads, counts)


def _lean_pieces(
    pa: Any, file: Any, path: str, plan: Plan, reads: Sequence[str], counts: Counts, more: frozenset[str]
) -> Generator[Piece, None, int]:
    """Pieces, and at the end the row from which on it is not possible."""
    columns = leaves_of(file, ROW_COLUMNS, lean_columns(reads, more))
    for first, rows in chunks(pa, file, path, columns):
        try:
            units = lean_units(lean_batch(pa, rows, reads), plan.level)
            credit = assign(plan.method, units, **plan.params)
            piece = piece_of(credit, np.arange(first, first + len(rows)), *_names(pa, rows))
        except NotLean as why:
            if why.column and why.column not in more:
                raise _MoreColumns(why.column) from None
            return first
        except Exception:  # whatever it was, the ordinary way has the words for it, or does without
            return first
        counts.rows += len(rows)
        counts.lean_rows += len(rows)
        yield _counted(piece, counts)
    return int(file.metadata.num_rows)


def _ordinary(
    pa: Any, first: int, rows: Any, path: str, plan: Plan, reads: Sequence[str], counts: Counts
) -> Iterator[Piece]:
    trajectories: list[Trajectory] = []
    kept: list[int] = []
    for k, item in enumerate(found(pa, rows, path, first)):
        if isinstance(item, FormatError):
            if not plan.skip_bad:
                raise item
            counts.skipped += 1
            counts.problems.append(str(item))
        else:
            trajectories.append(item)
            kept.append(k)
    if not trajectories:
        return
    at = np.array(kept, dtype=np.int64)
    own = rows if len(at) == len(rows) else rows.take(pa.array(at))
    try:
        batch = Batch.from_trajectories(without_repeated_ids(trajectories))
        units: Units = CUTS[plan.level](batch, **plan.options)
        if "reward_S" in reads and not batch.scored_N.any():
            yield _counted(_unknown(pa, units, own, at + first), counts)
            return
        credit = assign(plan.method, units, **plan.params)
    except FormatError:
        raise
    except ApportionError as error:
        raise type(error)(f"{path}, rows {first} to {first + len(rows) - 1}: {error}") from None
    yield _counted(piece_of(credit, at + first, *_names(pa, own)), counts)


def _unknown(pa: Any, units: Units, rows: Any, row: IntArray) -> Piece:
    """Nobody in these groups is scored: nothing is known of them, whatever the method."""
    nothing = Credit(np.zeros(len(units)), units, known_S=np.zeros(len(units), dtype=np.bool_))
    return replace(piece_of(nothing, row, *_names(pa, rows)), parts=None)


def _names(pa: Any, rows: Any) -> list[Any]:
    return [
        rows.column(name) if name in rows.schema.names else pa.nulls(len(rows), kind)
        for name, kind in (("id", pa.string()), ("group", pa.string()), ("outcome", pa.float64()))
    ]


def _counted(piece: Piece, counts: Counts) -> Piece:
    counts.rollouts += len(piece.row)
    counts.units += len(piece.advantage)
    counts.unknown_units += int(np.count_nonzero(~piece.known))
    counts.dropped_units += int(np.count_nonzero(~piece.train))
    return piece
