"""Rollouts laid out flat: the arrays of a `Batch`, which says what each holds."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from apportion.data.check import where
from apportion.data.steps import Columns
from apportion.data.trajectory import Trajectory
from apportion.data.words import count_words
from apportion.errors import DataError
from apportion.numerics import Array, BoolArray, FloatArray, IntArray

PER_TOKEN = {
    "logp_T": "logp",
    "ref_logp_T": "ref_logp",
    "entropy_T": "entropy",
    "token_value_T": "token_values",
}


def laid_out(rollouts: tuple[Trajectory, ...]) -> dict[str, Any]:
    """Every field of their `Batch` by name; arrays are read-only."""
    column = Columns(rollouts)
    length_N = np.array([len(trajectory.steps) for trajectory in rollouts], dtype=np.int64)
    first_N = np.concatenate(([0], np.cumsum(length_N)[:-1])).astype(np.int64)
    traj_of_S = np.repeat(np.arange(len(rollouts), dtype=np.int64), length_N)
    size = len(traj_of_S)
    ids, prompt_ids = column("ids"), column("prompt_ids")
    observation, reward, agent = (column(name) for name in ("observation", "reward", "agent"))
    with_ids_S = _told(ids)
    has_ids_N = _has_ids(rollouts, with_ids_S, first_N, length_N)

    context_S, action_S = _sizes(with_ids_S, prompt_ids, ids, observation, column("action"))
    both = np.stack((context_S, action_S), axis=1).reshape(-1)
    sampled_T = np.repeat(np.tile([False, True], size), both)
    step_of_T = np.repeat(np.arange(size, dtype=np.int64), context_S + action_S)

    tokens = [x for pair in zip(prompt_ids, ids, strict=True) if pair[1] is not None for x in pair if x is not None]
    if has_ids_N.all():
        ids_T = np.concatenate(tokens)
    elif tokens:
        ids_T = np.full(len(step_of_T), -1, dtype=np.int64)
        ids_T[has_ids_N[traj_of_S[step_of_T]]] = np.concatenate(tokens)
    else:  # words alone: one -1 that is seen everywhere, as no array here is written to
        ids_T = np.broadcast_to(np.int64(-1), step_of_T.shape)

    group_ids: dict[str, int] = {}
    group_of_N = np.array([group_ids.setdefault(name, len(group_ids)) for name in _groups(rollouts)], dtype=np.int64)
    scored_S = _told(reward)
    total = _totals(rollouts, reward, first_N, length_N)
    terminated_S, truncated_S, failed_S, fresh_S = (
        np.array(column(name, False), dtype=bool) for name in ("terminated", "truncated", "failed", "fresh")
    )
    last_N = first_N + length_N - 1
    turn_S = _turns(column("turn"), first_N, fresh_S | (context_S > 0), agent)
    parent_S = _parents(column("parent"), first_N)
    value = column("value")
    columns = {name: _per_token(context_S, action_S, column(field)) for name, field in PER_TOKEN.items()}
    more = column("columns", {})
    named = {name: _per_token(context_S, action_S, [x.get(name) for x in more]) for name in _names(more)}
    fields: dict[str, Any] = dict(
        trajectories=rollouts,
        ids_T=ids_T,
        sampled_T=sampled_T,
        step_of_T=step_of_T,
        columns_T={name: column for name, column in named.items() if column is not None},
        traj_of_S=traj_of_S,
        reward_S=np.array(reward if scored_S.all() else [0.0 if x is None else x for x in reward]),
        scored_S=scored_S,
        reward_parts=_parts(column("rewards", {})),
        value_S=None if None in value else np.array(value, dtype=np.float64),
        state_S=_objects(_states(column("state"), observation, prompt_ids)),
        turn_S=turn_S,
        agent_S=_objects([x or "" for x in agent]),
        parent_S=parent_S,
        terminated_S=terminated_S,
        truncated_S=truncated_S,
        failed_S=failed_S,
        fresh_S=fresh_S,
        group_of_N=group_of_N,
        group_names=tuple(group_ids),
        outcome_N=np.array([0.0 if x is None else x for x in total], dtype=np.float64),
        scored_N=np.array([x is not None for x in total], dtype=bool),
        outcome_parts=_parts([trajectory.outcomes for trajectory in rollouts]),
        final_value_N=np.array(
            [np.nan if t.final_value is None else t.final_value for t in rollouts], dtype=np.float64
        ),
        truncated_N=(truncated_S & ~terminated_S)[last_N],
        failed_N=np.logical_or.reduceat(failed_S, first_N),
        has_tokens_N=np.add.reduceat(action_S, first_N) > 0,
        has_ids_N=has_ids_N,
        **columns,
    )
    for field in fields.values():
        for array in field.values() if isinstance(field, dict) else (field,):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
    return fields


def _told(values: Sequence[Any]) -> BoolArray:
    return np.array([value is not None for value in values], dtype=bool)


def _has_ids(rollouts: Sequence[Trajectory], with_ids_S: BoolArray, first_N: IntArray, length_N: IntArray) -> BoolArray:
    count_N = np.add.reduceat(with_ids_S, first_N, dtype=np.int64)
    mixed_N = (count_N > 0) & (count_N < length_N)
    if mixed_N.any():
        n = int(mixed_N.argmax())
        raise DataError(
            f"{where(n, rollouts[n])}: some steps have ids and some only text; give ids for every step, or none"
        )
    return count_N > 0


def _sizes(
    with_ids_S: BoolArray, prompt_ids: Sequence[Any], ids: Sequence[Any], seen: Sequence[Any], said: Sequence[Any]
) -> tuple[IntArray, IntArray]:
    """Tokens, or words, of each step's context and of its action."""
    if with_ids_S.all():
        context = [0 if part is None else len(part) for part in prompt_ids]
        return np.array(context, dtype=np.int64), np.array(list(map(len, ids)), dtype=np.int64)
    out: list[IntArray] = []
    for texts, tokens in ((seen, prompt_ids), (said, ids)):
        if not with_ids_S.any():
            out.append(count_words([text or "" for text in texts]))
            continue
        size = count_words(["" if own else text or "" for text, own in zip(texts, with_ids_S, strict=True)])
        size += np.array([0 if part is None else len(part) for part in tokens], dtype=np.int64)
        out.append(size)
    return out[0], out[1]


def _totals(
    rollouts: Sequence[Trajectory], reward: Sequence[Any], first_N: IntArray, length_N: IntArray
) -> list[float | None]:
    """`Trajectory.total` of each."""
    out: list[float | None] = []
    for trajectory, lo, size in zip(rollouts, first_N.tolist(), length_N.tolist(), strict=True):
        own = reward[lo : lo + size]
        if trajectory.outcome is not None or own[-1] is None:
            out.append(trajectory.outcome)
        else:
            out.append(float(sum(x for x in own if x is not None)))
    return out


def _groups(rollouts: Sequence[Trajectory]) -> list[str]:
    """Names; a trajectory without one is a group of its own, under a name that nobody else has."""
    taken = {trajectory.group for trajectory in rollouts}
    out = []
    for n, trajectory in enumerate(rollouts):
        name = trajectory.group
        if name is None:
            name = f"alone-{n}"
            while name in taken:
                name += "'"
            taken.add(name)
        out.append(name)
    return out


def _states(state: Sequence[Any], observation: Sequence[Any], prompt_ids: Sequence[Any]) -> list[str]:
    return [
        own if own is not None else seen if seen is not None else _digest(ids)
        for own, seen, ids in zip(state, observation, prompt_ids, strict=True)
    ]


def _digest(prompt_ids: Any) -> str:
    if prompt_ids is None:
        return ""
    return "ids:" + hashlib.blake2b(np.asarray(prompt_ids).tobytes(), digest_size=16).hexdigest()


def _turns(told: Sequence[Any], first_N: IntArray, new_S: BoolArray, agent: Sequence[Any]) -> IntArray:
    """Turn of each step: as told, else one more than the step before where the speaker changes."""
    new_S = new_S.copy()
    new_S[1:] |= np.array([one != before for before, one in itertools.pairwise(agent)], dtype=bool)
    new_S[first_N] = True
    if told.count(None) == len(told):
        counted = np.cumsum(new_S)
        return counted - np.repeat(counted[first_N], np.diff(np.append(first_N, len(new_S))))
    turn, turns, first = -1, [], set(first_N.tolist())
    for s, (given, new) in enumerate(zip(told, new_S.tolist(), strict=True)):
        turn = given if given is not None else (-1 if s in first else turn) + new
        turns.append(turn)
    return np.array(turns, dtype=np.int64)


def _parents(told: Sequence[Any], first_N: IntArray) -> IntArray:
    """Row of each step's parent, -1 at a root: as told, else the step before."""
    parent_S = np.arange(-1, len(told) - 1)
    parent_S[first_N] = -1
    if told.count(None) < len(told):
        own_S = _told(told)
        start_S = np.repeat(first_N, np.diff(np.append(first_N, len(told))))
        inside = np.array([x for x in told if x is not None], dtype=np.int64)
        parent_S[own_S] = np.where(inside >= 0, inside + start_S[own_S], -1)
    return parent_S


def _names(holders: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every name, in order of first appearance."""
    return list(dict.fromkeys(name for holder in holders for name in holder))


def _parts(holders: Sequence[Mapping[str, float]]) -> dict[str, FloatArray]:
    return {name: np.array([holder.get(name, np.nan) for holder in holders]) for name in _names(holders)}


def _per_token(context_S: IntArray, action_S: IntArray, parts: Sequence[Any]) -> FloatArray | None:
    """Each step's column behind zeros for its context; None where a step that sampled has none."""
    if action_S[~_told(parts)].any():
        return None
    zero = np.zeros(int(context_S.max()))
    pieces = [zero[:before] for before in context_S.tolist()]
    return np.concatenate([x for pair in zip(pieces, parts, strict=True) for x in pair if x is not None])


def _objects(items: Sequence[str]) -> Array:
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out
