"""Rows of verl as rollouts, and credit back onto rows.

    row (p0, session 0, output 0)   prompt p p | response a a a            one rollout of the group p0:
    row (p0, session 0, output 1)   prompt p p p | response a a o a        three steps, one vote
    row (p0, session 1, output 0)   prompt p p | response a a o o a a      the next one

Nothing is read off the place of a row: a batch may be balanced, split, padded, and some of its rows repeated. What an
agent loop told about the steps of a row lies in lists under these names, as in the TRL adapter:

    steps                    (first, last) of each step in the response, last excluded; default: runs of the mask
    step_rewards, states, agents, turns, values, step_parts    one entry for each step
    columns                  further numbers by name, one for each response token
    truncated, failed, outcomes, reference, final_value        of the rollout, on its last row

The score of the last row is the outcome. Its last step gets what the outcome has beyond the other steps' rewards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from apportion.adapters.rows import HostRow, batch_of, per_row, runs_of
from apportion.credit import TokenAdvantages
from apportion.data import Batch
from apportion.errors import DataError
from apportion.numerics import Array, BoolArray, FloatArray, IntArray

STEP_LISTS = ("step_rewards", "states", "agents", "turns", "values", "step_parts")


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One row of the host without padding: a part of a rollout.

    Attributes:
        at: place in the host's batch. group, rollout, order: whose row it is; ``order`` counts the rows of a rollout.
        prompt_ids, ids: tokens. sampled: where the policy sampled a response token.
        trained: where the host would train; what its correction rejects is missing here.
        score: reward on each response token, NaN = not scored.
        shaped: the same with everything that is subtracted from it (a KL penalty), or None.
        told: what the agent loop told, see above.
        columns: numbers per response token by their names in `HostRow`.
        penalty: what an invalid action costs the row's only step, a named part of its reward; None = not told.
        outcome: of the rollout, where the host tells it apart from the score of its last row.

    A step of the rollout that the host has left out is a part at place -1, without tokens.
    """

    at: int
    group: str
    rollout: str
    order: int
    prompt_ids: IntArray
    ids: IntArray
    sampled: BoolArray
    trained: BoolArray
    score: FloatArray
    shaped: FloatArray | None = None
    told: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, FloatArray] = field(default_factory=dict)
    penalty: float | None = None
    outcome: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Rollouts:
    """Rows put together; build it with `rollouts_of`.

    Attributes:
        batch: the rollouts, ordered by their names. rows: what it was made of; rows that repeat another are there too.
        at: place of each of them in the host's batch, -1 for what the host has left out.
    """

    batch: Batch
    rows: tuple[HostRow, ...]
    at: tuple[int, ...]

    def onto_rows(self, tokens: TokenAdvantages) -> dict[int, tuple[FloatArray, FloatArray]]:
        """Advantage and weight of every response token, by the row's place in the host's batch."""
        placed = zip(self.at, per_row(tokens, self.rows), strict=True)
        return {at: numbers for at, numbers in placed if at >= 0}


def rollouts_of(parts: Sequence[Part], *, penalty_apart: bool = False) -> Rollouts:
    """Put rows together that are one rollout; rows that were repeated count once.

    Args:
        parts: rows in any order, padding rows left out.
        penalty_apart: the named part "penalty" of a step stays out of its reward and of the outcome.

    Raises:
        DataError: no rows, or what a row tells does not fit it; names the row.
    """
    if not parts:
        raise DataError("the batch has padding rows only, so nothing can be credited; look at what the rollouts gave")
    # by name: a sum has the same order, and so the same last bit, wherever the rows were
    ordered = sorted(parts, key=lambda part: (part.group, part.rollout, part.order, part.at))
    owned: dict[tuple[str, str], dict[int, Part]] = {}
    for part in ordered:
        owned.setdefault((part.group, part.rollout), {}).setdefault(part.order, part)
    penalised = any(part.shaped is not None and not np.array_equal(part.shaped, part.score) for part in parts)
    columns = _whole_columns(parts)
    rows = [
        _host_row(
            part,
            list(owned[part.group, part.rollout].values()),
            columns,
            penalised=penalised,
            penalty_apart=penalty_apart,
        )
        for part in ordered
    ]
    return Rollouts(batch_of(rows), tuple(rows), tuple(part.at for part in ordered))


def _host_row(
    part: Part, rollout: Sequence[Part], columns: Sequence[str], *, penalised: bool, penalty_apart: bool
) -> HostRow:
    """One row as every host's rows are; ``rollout`` holds all rows of its rollout."""
    name = f"{part.group}/{part.rollout}"
    is_last = part.order == rollout[-1].order
    told = part.told.get("steps")
    spans = None if told is None or len(told) == 0 else [(int(a), int(b)) for a, b in told]
    bounds = runs_of(part.sampled) if spans is None else spans
    lists = {key: _per_step(part, key, len(bounds), name) for key in STEP_LISTS}
    outcome = _outcome(rollout, penalised, penalty_apart)
    rewards = None if outcome is None else _step_rewards(part, lists["step_rewards"], bounds, is_last, penalised)
    if rewards is not None and part.penalty and not penalty_apart:
        rewards = [(rewards[0] or 0.0) + part.penalty, *rewards[1:]]
    if rewards is not None and is_last:
        rewards[-1] = None  # what the outcome has beyond the others
    return HostRow(
        group=part.group,
        id=name,
        index=part.order,
        prompt_ids=part.prompt_ids,
        completion_ids=part.ids,
        mask=part.sampled,
        reward=outcome,
        spans=spans,
        step_rewards=rewards,
        states=lists["states"],
        agents=lists["agents"],
        turns=lists["turns"],
        values=lists["values"],
        step_parts=_step_parts(part, lists["step_parts"], len(bounds)),
        columns=part.told.get("columns") or {},
        truncated=is_last and bool(part.told.get("truncated", False)),
        outcomes=_outcomes(part) if is_last else {},
        reference=part.told.get("reference") if is_last else None,
        final_value=part.told.get("final_value") if is_last else None,
        **{key: part.columns.get(key) for key in columns},  # type: ignore[arg-type]
    )


def _step_parts(part: Part, told: list[Any] | None, count: int) -> list[dict[str, float]] | None:
    """Named parts of the steps' rewards, with the penalty of the row among them."""
    if told is None and part.penalty is None:
        return None
    out = [dict(parts or {}) for parts in told or [None] * count]
    if part.penalty is not None:
        out[0]["penalty"] = part.penalty
    return out


def _step_rewards(
    part: Part, told: list[Any] | None, bounds: Sequence[tuple[int, int]], is_last: bool, penalised: bool
) -> list[Any] | None:
    rewards = told
    if rewards is None and is_last and np.count_nonzero(part.score) > 1:
        rewards = _by_step(part.score, bounds)  # a reward model that scores inside the response
    if penalised and part.shaped is not None:
        change = _by_step(np.where(part.sampled, part.shaped - part.score, 0.0), bounds)
        rewards = [(r or 0.0) + c for r, c in zip(rewards or [0.0] * len(bounds), change, strict=True)]
    return rewards if rewards is not None or part.penalty is None else [0.0] * len(bounds)


def _per_step(part: Part, key: str, count: int, name: str) -> list[Any] | None:
    """One entry per step; those that are missing at the end count as not told."""
    given = part.told.get(key)
    if given is None:
        return None
    values = [None if is_nan(value) else value for value in given]
    if len(values) > count:
        raise DataError(f"row {name!r}: {len(values)} {key} for {count} steps; give one per step")
    return [*values, *[None] * (count - len(values))]


def _by_step(per_token: FloatArray, bounds: Sequence[tuple[int, int]]) -> list[float]:
    """Sums of the tokens from the beginning of each step to that of the next; what is before the first counts there."""
    firsts = [first for first, _ in bounds]
    firsts[0] = 0
    return [float(per_token[a:b].sum()) for a, b in zip(firsts, [*firsts[1:], len(per_token)], strict=True)]


def _outcome(rollout: Sequence[Part], penalised: bool, penalty_apart: bool) -> float | None:
    """Score of the last row, and whatever was subtracted on any of them. None where nobody scored the rollout, where
    it broke, and where the host rejected every token: such a rollout is in no statistics.
    """
    last = rollout[-1]
    sampled = any(part.sampled.any() for part in rollout)
    rejected = sampled and not any((part.sampled & part.trained).any() for part in rollout)
    if rejected or bool(last.told.get("failed", False)):
        return None
    total = float(last.score.sum()) if last.outcome is None else last.outcome
    for part in rollout:
        if penalised and part.shaped is not None:
            total += float(np.where(part.sampled, part.shaped - part.score, 0.0).sum())
        if part.penalty and not penalty_apart:
            total += part.penalty
    return total if np.isfinite(total) else None


def _outcomes(part: Part) -> dict[str, float]:
    """Named parts of the outcome: told by the agent loop, else the numbers that the reward function returned."""
    given = part.told.get("outcomes")
    if given is None:
        given = part.told.get("reward_extra_info") or {}
    numbers = {str(key): value for key, value in given.items() if isinstance(value, bool | int | float | np.number)}
    return {key: float(value) for key, value in numbers.items() if np.isfinite(float(value))}


def _whole_columns(parts: Sequence[Part]) -> list[str]:
    """Columns that hold a finite number at every sampled token of every row; a broken one counts as not told."""
    own = [part for part in parts if part.sampled.any()]
    names = set.intersection(*(set(part.columns) for part in own)) if own else set()
    return sorted(name for name in names if all(np.isfinite(part.columns[name][part.sampled]).all() for part in own))


def is_nan(value: Any) -> bool:
    """A number that is none; other kinds of values are not."""
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def unpadded(values: Any, size: int) -> Array:
    """The first ``size`` entries of a row as an array in main memory; tensors lose their device."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.double().numpy() if values.is_floating_point() else values.numpy()
    out: Array = np.asarray(values)[:size]
    return out
