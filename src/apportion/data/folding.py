"""Fold step-wise rows (one model call each, with its whole prompt) into trajectories by token prefix, and back.

    row 0   prompt  p0            sampled  a0
    row 1   prompt  p0 a0 o1      sampled  a1      →   step 1: prompt_ids = o1, fresh = False
    row 2   prompt  q             sampled  a2      →   step 2: prompt_ids = q,  fresh = True

A row extends the one before when its prompt begins with that row's prompt and sampled ids. Only ids are compared:
equal text may be other tokens, and credit belongs on the tokens that were sampled.
"""

from __future__ import annotations

import bisect
import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apportion.data.check import check_trajectory
from apportion.data.trajectory import Step, Trajectory
from apportion.errors import DataError
from apportion.numerics import FloatArray, IntArray

Decode = Callable[[list[int]], str]

OF_STEP = tuple(f.name for f in dataclasses.fields(Step) if f.name not in ("prompt_ids", "fresh"))
OF_TRAJECTORY = tuple(f.name for f in dataclasses.fields(Trajectory) if f.name not in ("id", "steps"))


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One call of the model, as a trainer's table has it.

    Attributes:
        traj: id of the rollout that the call belongs to.
        index: position of the call in it, from 0 on, without holes.
        prompt_ids: the whole prompt as the engine saw it.
        ids: token ids that were sampled.
        observation … parent, extra: of this call, as in `Step`.
        group, outcome, outcomes, final_observation, final_value, reference, meta: of the whole rollout, as in
            `Trajectory`; the same on each of its rows.
    """

    traj: str
    index: int
    prompt_ids: IntArray | Sequence[int]
    ids: IntArray | Sequence[int]
    group: str | None = None
    outcome: float | None = None
    observation: str | None = None
    action: str | None = None
    logp: FloatArray | Sequence[float] | None = None
    ref_logp: FloatArray | Sequence[float] | None = None
    entropy: FloatArray | Sequence[float] | None = None
    value: float | None = None
    token_values: FloatArray | Sequence[float] | None = None
    columns: Mapping[str, FloatArray | Sequence[float]] = field(default_factory=dict)
    reward: float | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    state: str | None = None
    terminated: bool = False
    truncated: bool = False
    failed: bool = False
    turn: int | None = None
    agent: str | None = None
    actions: tuple[str, ...] | None = None
    parent: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    outcomes: Mapping[str, float] = field(default_factory=dict)
    final_observation: str | None = None
    final_value: float | None = None
    reference: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.traj, str):
            raise DataError(f"traj is {self.traj!r}; give the id of the rollout as a string")
        index = self.index.item() if isinstance(self.index, np.integer) else self.index
        if isinstance(index, bool) or not isinstance(index, int) or index < 0:
            raise DataError(f"row of {self.traj!r}: index is {index!r}; give the position of the call, from 0 on")
        object.__setattr__(self, "index", index)
        if self.prompt_ids is None or self.ids is None:
            missing = "prompt_ids" if self.prompt_ids is None else "ids"
            raise DataError(f"row {index} of {self.traj!r} has no {missing}; folding compares token ids, not text")
        try:
            step = Step(prompt_ids=self.prompt_ids, **{name: getattr(self, name) for name in OF_STEP})
            whole = Trajectory((), **{name: getattr(self, name) for name in OF_TRAJECTORY})
        except DataError as error:
            raise DataError(f"row {index} of {self.traj!r}: {error}") from None
        for name in ("prompt_ids", *OF_STEP):
            object.__setattr__(self, name, getattr(step, name))
        for name in OF_TRAJECTORY:
            object.__setattr__(self, name, getattr(whole, name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return all(_equal(getattr(self, f.name), getattr(other, f.name)) for f in dataclasses.fields(Row))

    __hash__ = None  # type: ignore[assignment]  # arrays inside


class Boundary(enum.Enum):
    """What lies between a row and the one before."""

    EXTENDS = "extends"
    """The prompt begins with the tokens before it: one sequence with a mask is exact."""
    DRIFT = "drift"
    """The same text in other tokens: train each row on the prompt that the sampler saw."""
    REWRITTEN = "rewritten"
    """A context rule or a chat template changed the history; legal, but never one sequence."""


@dataclass(frozen=True, slots=True, eq=False)
class Seam:
    """One boundary.

    Attributes:
        traj, index: the later row.
        kind: EXTENDS, DRIFT or REWRITTEN.
        common: tokens that the prompt shares with what came before. before: tokens that came before.
        new_ids: the part of the prompt that is new; None where the ids do not tell.
    """

    traj: str
    index: int
    kind: Boundary
    common: int
    before: int
    new_ids: IntArray | None


@dataclass(frozen=True, slots=True, eq=False)
class FoldReport:
    """Every boundary of a set of rows."""

    seams: tuple[Seam, ...]

    @property
    def counts(self) -> dict[Boundary, int]:
        """How often each kind occurs."""
        return {kind: sum(seam.kind is kind for seam in self.seams) for kind in Boundary}

    def __str__(self) -> str:
        shares = ", ".join(f"{count} {kind.value}" for kind, count in self.counts.items())
        return f"{len(self.seams)} boundaries: {shares}"


def fold(rows: Iterable[Row]) -> list[Trajectory]:
    """Trajectories in order of first appearance; each step holds only the context that is new before it.

    Args:
        rows: in any order, rollouts interleaved or not; sorted here by ``index``. ``parent`` names the row to
            compare with where it is not the one before (branches).

    Returns:
        One trajectory per ``traj``. `unfold` gives the rows back exactly.

    Raises:
        DataError: a hole or a repeat in ``index``; rows of one rollout that disagree on its group, outcome, ….
    """
    out = []
    for name, calls in _by_trajectory(rows).items():
        steps = []
        for row in calls:
            before = _before(calls, row)
            extends = before is not None and _common(before, row) == _size(before)
            new_ids = row.prompt_ids[_size(before) :] if extends and before is not None else row.prompt_ids
            fields = {key: getattr(row, key) for key in OF_STEP}
            steps.append(Step(prompt_ids=new_ids, fresh=before is not None and not extends, **fields))
        out.append(Trajectory(steps, id=name, **{key: getattr(calls[0], key) for key in OF_TRAJECTORY}))
    return out


def unfold(trajectory: Trajectory) -> list[Row]:
    """The rows of one trajectory, each with its whole prompt; the inverse of `fold`.

    Raises:
        DataError: the trajectory has no id, a step no token ids, or a precondition is broken.
    """
    if trajectory.id is None:
        raise DataError("a trajectory without an id cannot be unfolded; give it one, rows are told apart by it")
    check_trajectory(trajectory, f"trajectory {trajectory.id!r}")
    rows: list[Row] = []
    for s, step in enumerate(trajectory.steps):
        if step.ids is None:
            raise DataError(f"trajectory {trajectory.id!r}, step {s} has only text; unfolding needs token ids")
        prompt = np.zeros(0, dtype=np.int64) if step.prompt_ids is None else np.asarray(step.prompt_ids)
        parent = s - 1 if step.parent is None else step.parent
        if parent >= 0 and not step.fresh:
            before = rows[parent]
            prompt = np.concatenate((before.prompt_ids, before.ids, prompt))
        fields = {key: getattr(step, key) for key in OF_STEP}
        fields |= {key: getattr(trajectory, key) for key in OF_TRAJECTORY}
        rows.append(Row(trajectory.id, s, prompt, **fields))
    return rows


def prefix_report(rows: Iterable[Row], *, decode: Decode | None = None) -> FoldReport:
    """Where prompts stop extending the tokens before them, and why.

        full = prompt[t] + ids[t];  n = common prefix of full and prompt[t+1]
        n == len(full)                                       EXTENDS
        decode(prompt[t+1]) begins with decode(full)         DRIFT       (only with ``decode``)
        else                                                 REWRITTEN

    Args:
        rows: as for `fold`.
        decode: text of token ids, e.g. ``tokenizer.decode``; without it drift counts as REWRITTEN.
    """
    seams = []
    for name, calls in _by_trajectory(rows).items():
        for row in calls:
            before = _before(calls, row)
            if before is None:
                continue
            common, size = _common(before, row), _size(before)
            kind, cut = Boundary.REWRITTEN, None
            if common == size:
                kind, cut = Boundary.EXTENDS, size
            elif decode is not None:
                text = decode(_list(before.prompt_ids) + _list(before.ids))
                if decode(_list(row.prompt_ids)).startswith(text):
                    kind, cut = Boundary.DRIFT, _cut(row, text, decode)
            new_ids = None if cut is None else np.asarray(row.prompt_ids)[cut:]
            seams.append(Seam(name, row.index, kind, common, size, new_ids))
    return FoldReport(tuple(seams))


def _by_trajectory(rows: Iterable[Row]) -> dict[str, list[Row]]:
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row.traj, []).append(row)
    for name, calls in out.items():
        calls.sort(key=lambda row: row.index)
        for s, row in enumerate(calls):
            if row.index != s:
                what = f"row {row.index} comes twice" if s and row.index == s - 1 else f"row {s} is missing"
                raise DataError(f"trajectory {name!r}: {what}; give each call of the rollout once, from index 0 on")
            if row.parent is not None and not -1 <= row.parent < s:
                raise DataError(f"trajectory {name!r}, row {s}: parent is {row.parent}; give an earlier row, or -1")
            for key in OF_TRAJECTORY:
                one, other = getattr(calls[0], key), getattr(row, key)
                if not _equal(one, other):
                    raise DataError(
                        f"trajectory {name!r}: {key} is {one!r} in row 0 and {other!r} in row {s}; "
                        "it belongs to the whole rollout, so give the same on each of its rows"
                    )
    return out


def _before(calls: Sequence[Row], row: Row) -> Row | None:
    parent = row.index - 1 if row.parent is None else row.parent
    return calls[parent] if parent >= 0 else None


def _size(row: Row | None) -> int:
    return 0 if row is None else len(row.prompt_ids) + len(row.ids)


def _common(before: Row, row: Row) -> int:
    """Length of the common prefix of what came before and the prompt."""
    prompt, done = np.asarray(row.prompt_ids), 0
    for part in (before.prompt_ids, before.ids):
        part = np.asarray(part)
        facing = prompt[done : done + len(part)]
        different = np.flatnonzero(part[: len(facing)] != facing)
        if len(different):
            return done + int(different[0])
        done += len(facing)
        if len(facing) < len(part):
            return done
    return done


def _cut(row: Row, text: str, decode: Decode) -> int | None:
    """Fewest tokens of the prompt that decode to ``text``; None when a token spans its end."""
    prompt = _list(row.prompt_ids)
    cut = bisect.bisect_left(range(len(prompt) + 1), len(text), key=lambda k: len(decode(prompt[:k])))
    return cut if cut <= len(prompt) and decode(prompt[:cut]) == text else None


def _list(ids: IntArray | Sequence[int]) -> list[int]:
    return [int(i) for i in ids]


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.tobytes() == other.tobytes()
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    return type(one) is type(other) and bool(one == other)
