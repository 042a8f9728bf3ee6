"""Rows as trainers hold them: a prompt, a completion, a mask of what the policy sampled. To a batch, and credit back.

    prompt p p p | completion a a o o a a a     mask 1 1 0 0 1 1 1
                                step 0: a a      step 1: a a a, after the new context o o

A row is one trajectory here. Padding never enters: hosts cut it off before, and `onto_rows` writes into it zeros only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apportion.credit import TokenAdvantages
from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.numerics import Array, BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class HostRow:
    """One rollout as a row of a trainer.

    Attributes:
        group: name of the task and its start state; rows of a group are compared. id: name of the rollout.
        prompt_ids, completion_ids: token ids without padding.
        mask: True where the policy sampled a completion token; None = everywhere.
        reward: outcome; None = not scored.
        spans: ``(first, last)`` of each step in the completion, last excluded; None = one step per run of sampled
            tokens.
        step_rewards, states, agents, turns, values: one entry per step, or None.
        logp, ref_logp, entropy, token_values: one number per completion token, or None; what stands where the policy
            did not sample is ignored.
        truncated: a limit ended it. outcomes: named parts of the reward. reference: artefact for training time only.
        meta: anything else.
    """

    group: str
    id: str
    prompt_ids: IntArray | Sequence[int]
    completion_ids: IntArray | Sequence[int]
    mask: BoolArray | Sequence[bool] | Sequence[int] | None = None
    reward: float | None = None
    spans: Sequence[tuple[int, int]] | None = None
    step_rewards: Sequence[float | None] | None = None
    states: Sequence[str | None] | None = None
    agents: Sequence[str | None] | None = None
    turns: Sequence[int | None] | None = None
    values: Sequence[float | None] | None = None
    logp: FloatArray | Sequence[float] | None = None
    ref_logp: FloatArray | Sequence[float] | None = None
    entropy: FloatArray | Sequence[float] | None = None
    token_values: FloatArray | Sequence[float] | None = None
    truncated: bool = False
    outcomes: Mapping[str, float] = field(default_factory=dict)
    reference: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def sampled(self) -> BoolArray:
        """Where the policy sampled, over the completion."""
        size = len(self.completion_ids)
        mask = np.ones(size, dtype=bool) if self.mask is None else np.asarray(self.mask).astype(bool)
        if mask.shape != (size,):
            raise DataError(f"row {self.id!r}: the mask has {len(mask)} entries for {size} completion tokens")
        return mask


OF_STEP = {"step_rewards": "reward", "states": "state", "agents": "agent", "turns": "turn", "values": "value"}
OF_TOKEN = ("logp", "ref_logp", "entropy", "token_values")


def batch_of(rows: Sequence[HostRow]) -> Batch:
    """The rows as a checked batch, one trajectory each, in their order.

    Raises:
        DataError: naming the row, what is wrong and what to give.
    """
    return Batch.from_trajectories([trajectory_of(row) for row in rows])


def trajectory_of(row: HostRow) -> Trajectory:
    """One row as a trajectory; its steps are the spans, and what lies between them is new context."""
    mask = row.sampled()
    spans = runs_of(mask) if row.spans is None else _checked(row, mask)
    ids = np.asarray(row.completion_ids, dtype=np.int64)
    told = {name: _per_step(row, name, len(spans)) for name in OF_STEP}
    columns = {name: _per_token(row, name, len(ids)) for name in OF_TOKEN}
    steps, done = [], 0
    for s, (first, last) in enumerate(spans):
        context = ids[done:first] if s else np.concatenate((np.asarray(row.prompt_ids, dtype=np.int64), ids[:first]))
        fields: dict[str, Any] = {OF_STEP[name]: values[s] for name, values in told.items() if values is not None}
        fields |= {name: column[first:last] for name, column in columns.items() if column is not None}
        ended = row.truncated and s == len(spans) - 1
        steps.append(Step(prompt_ids=context, ids=ids[first:last], truncated=ended, **fields))
        done = last
    return Trajectory(
        steps,
        group=row.group,
        id=row.id,
        outcome=row.reward,
        outcomes=row.outcomes,
        reference=row.reference,
        meta=row.meta,
    )


def onto_rows(tokens: TokenAdvantages, rows: Sequence[HostRow], length: int) -> tuple[FloatArray, FloatArray]:
    """Advantage and weight of every completion token, padded on the right to ``length``.

    Args:
        tokens: credit of the batch that `batch_of` made of the same rows. rows: those rows.
        length: L, at least the longest completion.

    Returns:
        Two (N, L) arrays, 0 where the policy sampled nothing.
    """
    advantage, weight = np.zeros((len(rows), length)), np.zeros((len(rows), length))
    for n, (row, part) in enumerate(zip(rows, tokens.split(), strict=True)):
        own = np.flatnonzero(row.sampled())
        advantage[n, own] = part.advantage[part.sampled]
        weight[n, own] = part.weight[part.sampled]
    return advantage, weight


def runs_of(mask: BoolArray) -> list[tuple[int, int]]:
    """Maximal runs of True; one empty run at the end where there is none, since a rollout has at least one step."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    runs = [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return runs or [(len(mask), len(mask))]


def _checked(row: HostRow, mask: BoolArray) -> list[tuple[int, int]]:
    """The row's spans, which must hold every sampled token once and no other."""
    assert row.spans is not None
    done, out = 0, []
    for s, span in enumerate(row.spans):
        first, last = int(span[0]), int(span[1])
        if not done <= first <= last <= len(mask):
            raise DataError(
                f"row {row.id!r}: step {s} spans tokens {first} to {last} of {len(mask)}, and the step before ended at "
                f"{done}; give (first, last) in order, last excluded"
            )
        if not mask[first:last].all():
            at = first + int(np.argmin(mask[first:last]))
            raise DataError(
                f"row {row.id!r}: step {s} holds token {at}, which the policy did not sample; end the step before it"
            )
        if mask[done:first].any():
            break
        out.append((first, last))
        done = last
    else:
        first = len(mask)
    if mask[done:first].any():
        at = done + int(np.argmax(mask[done:first]))
        raise DataError(f"row {row.id!r}: token {at} was sampled and is in no step; give every sampled token a step")
    if not out:
        raise DataError(f"row {row.id!r} has no steps; give at least one span, or none at all for runs of the mask")
    return out


def _per_step(row: HostRow, name: str, count: int) -> list[Any] | None:
    values = getattr(row, name)
    if values is None:
        return None
    if len(values) != count:
        raise DataError(f"row {row.id!r}: {len(values)} {name} for {count} steps; give one per step")
    return list(values)


def _per_token(row: HostRow, name: str, count: int) -> Array | None:
    values = getattr(row, name)
    if values is None:
        return None
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (count,):
        raise DataError(f"row {row.id!r}: {len(array)} {name} for {count} completion tokens; give one per token")
    return array
