"""Units as plain values inside a credit file, and back, bit by bit.

A file keeps which unit wrote each token and where each unit starts. The other columns follow from the rollouts: the
recorded cut is made again where it is a built-in one, else the columns are aggregated over the stored map. Only
columns that come out different (another reward, a state key of the user's own) are stored as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from apportion.data import Batch
from apportion.errors import ApportionError, DataError, FormatError
from apportion.numerics import Array, IntArray
from apportion.units import CUTS, NAMED, Units, cut

MAPS = ("unit_of_T", "traj_of_S", "step_of_S")


@dataclass(frozen=True, slots=True)
class UnitsPlan:
    """How a reader gets the units back.

    Attributes:
        level: name of the cut. options: its arguments.
        built_in: the cut of that name is made again; otherwise the stored map is used.
        absent: columns that the units lack although a reader would find them.
        given: columns stored as they are.
    """

    level: str
    options: Mapping[str, Any]
    built_in: bool
    absent: tuple[str, ...] = ()
    given: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnitsPiece:
    """The units of one trajectory, numbered from 0.

    Attributes:
        tokens: (runs, 2), runs (unit, length) over its tokens; unit -1 where nothing was sampled.
        step: first step of each unit, counted inside the trajectory.
        columns: the given columns; of an N column the one value.
    """

    tokens: IntArray
    step: IntArray
    columns: dict[str, Any] = field(default_factory=dict)


def plan_units(units: Units) -> UnitsPlan:
    """Find out how much of the units follows from the rollouts.

    Raises:
        DataError: a column holds what a file cannot keep.
    """
    again = _built_in(units.batch, units.level, units.options)
    built_in = again is not None and all(_same(getattr(again, name), getattr(units, name)) for name in MAPS)
    if not built_in or again is None:
        again = cut(units.batch, units.level, units.unit_of_T, units.step_of_S)
    if not _same(again.traj_of_S, units.traj_of_S):
        raise DataError("units.traj_of_S disagrees with the steps that the units start in; cut the batch again")
    absent: list[str] = []
    given: list[str] = []
    mine, theirs = _columns_of(units), _columns_of(again)
    for name in dict.fromkeys([*theirs, *mine]):
        if not _same(theirs.get(name), mine.get(name)):
            (absent if name not in mine else given).append(name)
    for name in given:
        column = mine[name]
        if column.dtype == object and not all(isinstance(item, str) for item in column):
            raise DataError(f"units.{name} holds more than texts, which a credit file cannot keep; make them texts")
    return UnitsPlan(units.level, dict(units.options), built_in, tuple(absent), tuple(given))


def split_units(units: Units, plan: UnitsPlan) -> list[UnitsPiece]:
    """The units of each trajectory.

    Raises:
        DataError: a token belongs to a unit of another trajectory.
    """
    batch, column_of = units.batch, _columns_of(units)
    n = len(batch)
    unit_end_N = np.cumsum(np.bincount(units.traj_of_S, minlength=n))
    token_end_N = np.cumsum(np.bincount(batch.traj_of_T, minlength=n))
    step_end_N = np.cumsum(np.bincount(batch.traj_of_S, minlength=n))
    out = []
    for i in range(n):
        s0, s1 = _span(unit_end_N, i)
        t0, t1 = _span(token_end_N, i)
        tokens = units.unit_of_T[t0:t1]
        own = tokens[tokens >= 0]
        if len(own) and (own.min() < s0 or own.max() >= s1):
            raise DataError(f"units.unit_of_T: tokens of trajectory {i} belong to units of another; cut it again")
        columns = {
            name: _plain(column_of[name][i : i + 1])[0] if _per_traj(name) else _plain(column_of[name][s0:s1])
            for name in plan.given
        }
        first_step = _span(step_end_N, i)[0]
        out.append(
            UnitsPiece(
                _runs(np.where(tokens >= 0, tokens - s0, -1)),
                units.step_of_S[s0:s1] - first_step,
                columns,
            )
        )
    return out


def join_units(batch: Batch, plan: UnitsPlan, pieces: Sequence[UnitsPiece], at: str) -> Units:
    """The units that `plan_units` and `split_units` described.

    Raises:
        FormatError: the pieces do not fit the rollouts.
    """
    token_N = np.bincount(batch.traj_of_T, minlength=len(batch))
    step_N = np.bincount(batch.traj_of_S, minlength=len(batch))
    first_step_N = np.cumsum(step_N) - step_N
    tokens, steps, first_unit = [], [], 0
    for i, piece in enumerate(pieces):
        here = f"{at}, trajectory {i}"
        local = _unrun(piece.tokens, int(token_N[i]), len(piece.step), here)
        tokens.append(np.where(local >= 0, local + first_unit, -1))
        step = piece.step
        if len(step) and (step.min() < 0 or step.max() >= step_N[i]):
            raise FormatError(f"{here}: a unit starts in step {int(step.max())} of {int(step_N[i])}; write it again")
        steps.append(step + first_step_N[i])
        first_unit += len(step)
    unit_of_T = np.concatenate(tokens) if tokens else np.zeros(0, dtype=np.int64)
    step_of_S = np.concatenate(steps) if steps else np.zeros(0, dtype=np.int64)
    if plan.built_in:
        again = _built_in(batch, plan.level, plan.options)
        if again is None or not (_same(again.unit_of_T, unit_of_T) and _same(again.step_of_S, step_of_S)):
            raise FormatError(f"{at}: the cut {plan.level!r} made again differs from the stored one; write it again")
    else:
        again = cut(batch, plan.level, unit_of_T, step_of_S)
    changes: dict[str, Any] = {name: dict(getattr(again, name)) for name in NAMED}
    for name in (*plan.absent, *plan.given):
        field, _, key = name.partition(".")
        if field not in Units.__slots__ or (field in NAMED) != bool(key):
            raise FormatError(f"{at}: there is no unit column {name!r}; the file was changed, write it again")
        if name in plan.absent:
            if key:
                changes[field].pop(key, None)
            else:
                changes[field] = None
            continue
        per_traj = [piece.columns.get(name) for piece in pieces]
        flat = per_traj if _per_traj(name) else [item for part in per_traj for item in part or ()]
        column = _column(name, flat, f"{at}: {name}")
        if key:
            changes[field][key] = column
        else:
            changes[field] = column
    return replace(again, options=dict(plan.options), **changes)


def tupled(value: Any) -> Any:
    """Sequences of a file as tuples, as the signature of a cut or a method has them."""
    if isinstance(value, dict):
        return {key: tupled(item) for key, item in value.items()}
    return tuple(tupled(item) for item in value) if isinstance(value, list) else value


def _columns_of(units: Units) -> dict[str, Array]:
    """Every array but the maps, by name."""
    return {name: array for name, _, array in units.arrays() if name not in MAPS}


def _per_traj(name: str) -> bool:
    return name.endswith("_N") or NAMED.get(name.partition(".")[0]) == "N"


def _built_in(batch: Batch, level: str, options: Mapping[str, Any]) -> Units | None:
    """The cut of that name made again; None where it is not one of ours, or needs a function to be made."""
    if level not in CUTS:
        return None
    arguments = {name: value for name, value in options.items() if name != "state"}
    make: Any = CUTS[level]
    try:
        units: Units = make(batch, **arguments)
    except (ApportionError, TypeError):
        return None
    return units


def _same(a: Array | None, b: Array | None) -> bool:
    """Equal bit by bit: -0.0 is not 0.0, NaN is NaN."""
    if a is None or b is None:
        return a is b
    if a.shape != b.shape or a.dtype.kind != b.dtype.kind:
        return False
    return a.tolist() == b.tolist() if a.dtype == object else np.array_equal(_bits(a), _bits(b))


def _bits(array: Array) -> Array:
    array = np.ascontiguousarray(array)
    return array.astype(np.float64).view(np.int64) if array.dtype.kind == "f" else array


def _plain(array: Array) -> list[Any]:
    """JSON values; NaN, which `final_value_N` and named parts may hold, is None."""
    if array.dtype.kind == "f":
        return [None if value != value else value for value in array.tolist()]
    return list(array.tolist())


def _column(name: str, values: Sequence[Any], at: str) -> Array:
    kind: type
    if name in ("state_S", "agent_S"):
        if not all(isinstance(value, str) for value in values):
            raise FormatError(f"{at} must be texts; the file was changed, write it again")
        out = np.empty(len(values), dtype=object)
        out[:] = values
        return out
    if name in ("valid_N", "truncated_N"):
        kind = bool
    elif name in ("tokens_S", "turn_S", "parent_S", "group_of_N"):
        kind = int
    else:
        kind = float
        values = [float("nan") if value is None else value for value in values]
    if not all(isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) for value in values):
        raise FormatError(f"{at} must be {kind.__name__} values; the file was changed, write it again")
    return np.array(values, dtype={bool: np.bool_, int: np.int64, float: np.float64}[kind])


def _runs(values: IntArray) -> IntArray:
    first = np.flatnonzero(np.diff(values, prepend=-2))  # -1 is the least that there is
    return np.column_stack([values[first], np.diff(first, append=len(values))])


def _unrun(runs: IntArray, tokens: int, units: int, at: str) -> IntArray:
    unit, size = runs[:, 0], runs[:, 1]
    # compared before anything is repeated: a changed length must not fill the memory
    if (size < 1).any() or (size > tokens).any() or int(size.sum()) != tokens:
        raise FormatError(f"{at}: its runs cover another number of tokens than its {tokens}; write the file again")
    if len(unit) and (unit.min() < -1 or unit.max() >= units):
        raise FormatError(f"{at}: a token belongs to unit {int(unit.max())} of {units}; write the file again")
    return np.repeat(unit, size)


def _span(end: IntArray, i: int) -> tuple[int, int]:
    return (int(end[i - 1]) if i else 0), int(end[i])
