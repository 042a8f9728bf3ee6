"""The steps of one row of a trainer, and every precondition of what it tells about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.data import Step
from apportion.errors import DataError
from apportion.numerics import Array, BoolArray, IntArray

if TYPE_CHECKING:
    from apportion.adapters.rows import HostRow

OF_STEP = {
    "step_rewards": "reward",
    "states": "state",
    "agents": "agent",
    "turns": "turn",
    "values": "value",
    "step_parts": "rewards",
}
OF_TOKEN = ("logp", "ref_logp", "entropy", "token_values")


def steps_of(row: HostRow, context: IntArray, ids: IntArray, *, fresh: bool, ends: bool) -> tuple[list[Step], IntArray]:
    """The steps of one row behind its context, and the tokens after the last of them."""
    mask = row.sampled()
    spans = runs_of(mask) if row.spans is None else _checked(row, mask)
    told = {name: _per_step(row, name, len(spans)) for name in OF_STEP}
    columns = {name: _per_token(row, name, getattr(row, name), len(ids)) for name in OF_TOKEN}
    more = {name: _per_token(row, name, column, len(ids)) for name, column in row.columns.items()}
    steps, done = [], 0
    for s, (first, last) in enumerate(spans):
        fields: dict[str, Any] = {OF_STEP[name]: values[s] for name, values in told.items() if values is not None}
        fields |= {name: column[first:last] for name, column in columns.items() if column is not None}
        steps.append(
            Step(
                prompt_ids=np.concatenate((context, ids[:first])) if s == 0 else ids[done:first],
                ids=ids[first:last],
                fresh=fresh and s == 0,
                truncated=ends and s == len(spans) - 1,
                columns={name: column[first:last] for name, column in more.items() if column is not None},
                **fields,
            )
        )
        done = last
    return steps, ids[done:]


def _per_step(row: HostRow, name: str, count: int) -> list[Any] | None:
    values = getattr(row, name)
    if values is None:
        return None
    if len(values) != count:
        raise DataError(f"row {row.id!r}: {len(values)} {name} for {count} steps; give one per step")
    return list(values)


def _per_token(row: HostRow, name: str, values: Any, count: int) -> Array | None:
    if values is None:
        return None
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"row {row.id!r}: {name} are no numbers; give each row one number per completion token"
        ) from None
    if array.ndim != 1:
        raise DataError(f"row {row.id!r}: {name} has {array.ndim} axes; give each row one number per completion token")
    if len(array) != count:
        raise DataError(f"row {row.id!r}: {len(array)} {name} for {count} completion tokens; give one per token")
    return array


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
