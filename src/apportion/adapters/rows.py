"""Rows as trainers hold them: a prompt, a completion, a mask of what the policy sampled. To a batch, and credit back.

    prompt p p p | completion a a o o a a a     mask 1 1 0 0 1 1 1
                                step 0: a a      step 1: a a a, after the new context o o

A row is one rollout, or one call of several: rows of the same id are put together in the order of their `index`, by
token prefix. Copies of a row (hosts fill batches up with them) count once and get the same numbers. Padding never
enters: hosts cut it off before, and `onto_rows` writes into it zeros only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apportion.adapters.row_steps import runs_of, steps_of
from apportion.credit import TokenAdvantages
from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.numerics import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class HostRow:
    """One rollout as a row of a trainer, or one of its rows.

    Attributes:
        group: name of the task and its start state; rows of a group are compared. id: name of the rollout.
        index: place among the rows of its rollout, from 0 on without holes.
        prompt_ids, completion_ids: token ids without padding.
        mask: True where the policy sampled a completion token; None = everywhere.
        reward: outcome of the rollout; None = not scored. Of several rows, at least one tells it.
        spans: ``(first, last)`` of each step in the completion, last excluded; None = one step per run of sampled
            tokens.
        step_rewards, states, agents, turns, values, step_parts: one entry per step, or None; of `step_parts`, the
            rewards of the step by name.
        logp, ref_logp, entropy, token_values: one number per completion token, or None; what stands where the policy
            did not sample is ignored. columns: further ones by name.
        truncated: a limit ended it. outcomes: named parts of the reward. reference: artefact for training time only.
        final_value: value after the last token, for a rollout that a limit ended.
        meta: anything else.
    """

    group: str
    id: str
    prompt_ids: IntArray | Sequence[int]
    completion_ids: IntArray | Sequence[int]
    index: int = 0
    mask: BoolArray | Sequence[bool] | Sequence[int] | None = None
    reward: float | None = None
    spans: Sequence[tuple[int, int]] | None = None
    step_rewards: Sequence[float | None] | None = None
    states: Sequence[str | None] | None = None
    agents: Sequence[str | None] | None = None
    turns: Sequence[int | None] | None = None
    values: Sequence[float | None] | None = None
    step_parts: Sequence[Mapping[str, float]] | None = None
    logp: FloatArray | Sequence[float] | None = None
    ref_logp: FloatArray | Sequence[float] | None = None
    entropy: FloatArray | Sequence[float] | None = None
    token_values: FloatArray | Sequence[float] | None = None
    columns: Mapping[str, FloatArray | Sequence[float]] = field(default_factory=dict)
    truncated: bool = False
    outcomes: Mapping[str, float] = field(default_factory=dict)
    reference: str | None = None
    final_value: float | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def sampled(self) -> BoolArray:
        """Where the policy sampled, over the completion."""
        size = len(self.completion_ids)
        mask = np.ones(size, dtype=bool) if self.mask is None else np.asarray(self.mask).astype(bool)
        if mask.shape != (size,):
            raise DataError(f"row {self.id!r}: the mask has {len(mask)} entries for {size} completion tokens")
        return mask


__all__ = ["HostRow", "batch_of", "onto_rows", "per_row", "runs_of", "trajectory_of"]

OF_ROLLOUT = ("group", "reward", "reference", "final_value")


def batch_of(rows: Sequence[HostRow]) -> Batch:
    """The rows as a checked batch, one trajectory for each id, in order of first appearance.

    Raises:
        DataError: naming the row, what is wrong and what to give.
    """
    return Batch.from_trajectories([trajectory_of(*calls) for calls in _rollouts(rows)])


def trajectory_of(*rows: HostRow) -> Trajectory:
    """The rows of one rollout, in order, as a trajectory; its steps are the spans, what lies between is new context.

    A row whose prompt begins with all tokens of the row before goes on where that one ended; any other begins afresh.
    """
    steps: list[Step] = []
    seen = rest = np.zeros(0, dtype=np.int64)
    for k, row in enumerate(rows):
        prompt, ids = (np.asarray(x, dtype=np.int64) for x in (row.prompt_ids, row.completion_ids))
        fresh = k > 0 and not np.array_equal(prompt[: len(seen)], seen)
        context = prompt if fresh else np.concatenate((rest, prompt[len(seen) :]))
        more, rest = steps_of(row, context, ids, fresh=fresh, ends=row.truncated and k == len(rows) - 1)
        steps += more
        seen = np.concatenate((prompt, ids))
    told = {name: _agreed(rows, name) for name in OF_ROLLOUT}
    return Trajectory(
        steps,
        group=told["group"],
        id=rows[0].id,
        outcome=told["reward"],
        outcomes=rows[-1].outcomes,
        reference=told["reference"],
        final_value=told["final_value"],
        meta=rows[-1].meta,
    )


def per_row(
    tokens: TokenAdvantages, rows: Sequence[HostRow], among: Sequence[HostRow] | None = None
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Advantage and weight of every completion token of each row, 0 where the policy sampled nothing.

    Args:
        tokens: credit of the batch that `batch_of` made of ``among``.
        rows: any of those, in any order.
        among: default the rows themselves.
    """
    place, parts = {}, list(tokens.split())
    for n, calls in enumerate(_rollouts(rows if among is None else among)):
        first = 0
        for row in calls:
            place[row.id, row.index] = n, first
            first += int(row.sampled().sum())
    own_parts = [(part.advantage[part.sampled], part.weight[part.sampled]) for part in parts]
    for row in rows:
        own = np.flatnonzero(row.sampled())
        n, first = place[row.id, row.index]
        out = np.zeros((2, len(row.completion_ids)))
        out[:, own] = [x[first : first + len(own)] for x in own_parts[n]]
        yield out[0], out[1]


def onto_rows(
    tokens: TokenAdvantages, rows: Sequence[HostRow], length: int, among: Sequence[HostRow] | None = None
) -> tuple[FloatArray, FloatArray]:
    """Advantage and weight of every completion token, padded on the right to ``length``.

    Args:
        tokens, rows, among: as for `per_row`.
        length: L, at least the longest completion.

    Returns:
        Two (N, L) arrays, 0 where the policy sampled nothing.
    """
    advantage, weight = np.zeros((len(rows), length)), np.zeros((len(rows), length))
    for n, (x, w) in enumerate(per_row(tokens, rows, among)):
        advantage[n, : len(x)], weight[n, : len(w)] = x, w
    return advantage, weight


def _rollouts(rows: Sequence[HostRow]) -> list[list[HostRow]]:
    """The rows of each rollout by index, copies once; rollouts in order of first appearance."""
    held: dict[str, dict[int, HostRow]] = {}
    for row in rows:
        first = held.setdefault(row.id, {}).setdefault(row.index, row)
        if first is not row and not _same(first, row):
            raise DataError(
                f"row {row.id!r}: index {row.index} comes twice with other tokens; give each rollout its own id, and "
                "each of its rows its place in it"
            )
    out = []
    for id, calls in held.items():
        missing = next((k for k in range(len(calls)) if k not in calls), None)
        if missing is not None:
            raise DataError(
                f"rollout {id!r}: row {missing} is missing, and there is a row {max(calls)}; "
                "give all rows of a rollout, index from 0 on"
            )
        out.append([calls[k] for k in range(len(calls))])
    return out


def _same(one: HostRow, other: HostRow) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("prompt_ids", "completion_ids")
    ) and np.array_equal(one.sampled(), other.sampled())


def _agreed(rows: Sequence[HostRow], name: str) -> Any:
    """What the rows of a rollout say of it together: the one thing that those say which say anything."""
    told = [value for value in (getattr(row, name) for row in rows) if value is not None]
    if any(value != told[0] for value in told[1:]):
        other = next(value for value in told if value != told[0])
        raise DataError(
            f"rollout {rows[0].id!r}: {name} is {told[0]!r} in one row and {other!r} in another; it belongs to the "
            "whole rollout, so give it once, or the same on each"
        )
    return told[0] if told else None
