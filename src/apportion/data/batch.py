"""`Batch`: N ragged trajectories as flat, read-only arrays with maps that point up.

    token → step → trajectory → group          step_of_T   traj_of_S   group_of_N

Every token of every step is in the T axis, in time order: the new context of a step (prompt, observation),
then what the policy sampled (``sampled_T``). Letters cancel: ``group_of_N[traj_of_S]`` is each step's group.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.data.check import check_batch, where
from apportion.data.steps import Columns
from apportion.data.trajectory import Trajectory
from apportion.data.words import count_words, words
from apportion.errors import DataError
from apportion.numerics import Array, BoolArray, FloatArray, IntArray

PER_TOKEN = {
    "logp_T": "logp",
    "ref_logp_T": "ref_logp",
    "entropy_T": "entropy",
    "token_value_T": "token_values",
}


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """N checked trajectories. Build it with `Batch.from_trajectories` or `apportion.read`.

    Axes: T tokens (all of them, end to end), S steps, N trajectories, G groups.

    Attributes:
        trajectories: the rollouts as given.
        ids_T: token ids; -1 for the words of a text-only trajectory.
        sampled_T: True where the policy sampled the token; nothing else can hold credit.
        step_of_T: step that each token belongs to.
        logp_T, ref_logp_T, entropy_T, token_value_T: per-token columns, 0 where not sampled; None
            unless every sampled token of the batch has one.
        columns_T: further per-token columns by name (`Step.columns`), likewise; the names that every sampled token has.
        traj_of_S: trajectory of each step; non-decreasing.
        reward_S: reward that follows each step, 0 where not scored. scored_S: where there was one.
        reward_parts: named parts of the step rewards, each (S,), NaN where a step has none of that name.
        value_S: value of the state before each step, reward units; None unless every step has one.
        state_S: text that states are compared by (step.state, else the observation); object array.
        turn_S: turn index inside the trajectory. agent_S: who acted, "" when not told; object array.
        parent_S: previous step, -1 at a root.
        terminated_S, truncated_S, failed_S, fresh_S: flags of `Step`.
        group_of_N: group of each trajectory. group_names: name of each group.
        outcome_N: return of each episode, 0 where not scored. scored_N: where it is known.
        outcome_parts: named parts of the outcomes, each (N,), NaN where a trajectory has none of that name.
        final_value_N: value after the last action, NaN where not given.
        truncated_N: a limit ended it. failed_N: infrastructure broke in it.
        has_tokens_N: the policy sampled at least one token.
        has_ids_N: the tokens are ids, not words.
    """

    trajectories: tuple[Trajectory, ...]
    ids_T: IntArray
    sampled_T: BoolArray
    step_of_T: IntArray
    logp_T: FloatArray | None
    ref_logp_T: FloatArray | None
    entropy_T: FloatArray | None
    token_value_T: FloatArray | None
    columns_T: Mapping[str, FloatArray]
    traj_of_S: IntArray
    reward_S: FloatArray
    scored_S: BoolArray
    reward_parts: Mapping[str, FloatArray]
    value_S: FloatArray | None
    state_S: Array
    turn_S: IntArray
    agent_S: Array
    parent_S: IntArray
    terminated_S: BoolArray
    truncated_S: BoolArray
    failed_S: BoolArray
    fresh_S: BoolArray
    group_of_N: IntArray
    group_names: tuple[str, ...]
    outcome_N: FloatArray
    scored_N: BoolArray
    outcome_parts: Mapping[str, FloatArray]
    final_value_N: FloatArray
    truncated_N: BoolArray
    failed_N: BoolArray
    has_tokens_N: BoolArray
    has_ids_N: BoolArray

    @staticmethod
    def from_trajectories(trajectories: Iterable[Trajectory]) -> Batch:
        """Check every precondition and lay the rollouts out flat.

        Raises:
            DataError: naming the trajectory, the step, what is wrong and what to give instead.
        """
        return _from(trajectories, checked=False)

    @property
    def valid_N(self) -> BoolArray:
        """Trajectories that take part in statistics: scored, with tokens, nothing broken."""
        return self.scored_N & self.has_tokens_N & ~self.failed_N

    @property
    def traj_of_T(self) -> IntArray:
        return self.traj_of_S[self.step_of_T]

    @property
    def has_ids(self) -> bool:
        """Every trajectory carries token ids."""
        return bool(self.has_ids_N.all())

    def names(self) -> tuple[str, ...]:
        """Id of each trajectory, its position where it has none."""
        return tuple(t.id if t.id is not None else str(n) for n, t in enumerate(self.trajectories))

    def pieces(self) -> list[str]:
        """Text of each token: the word, or ``⟨id⟩`` where only ids are known."""
        out: list[str] = []
        for trajectory in self.trajectories:
            for step in trajectory.steps:
                if step.ids is None:
                    out += words(step.observation or "") + words(step.action or "")
                else:
                    context = [] if step.prompt_ids is None else step.prompt_ids
                    out += [f"⟨{i}⟩" for i in (*context, *step.ids)]
        return out

    def fingerprint(self) -> str:
        """Digest of everything a method can read; equal content, equal digest."""
        digest = hashlib.blake2b(digest_size=16)
        for name in self.__slots__:
            value = getattr(self, name)
            if name == "trajectories" or value is None:
                continue
            if isinstance(value, np.ndarray) and value.dtype != object:
                _digest_array(digest, name, value)
            elif isinstance(value, Mapping):
                for key in sorted(value):
                    _digest_array(digest, f"{name}.{key}", value[key])
            else:
                _digest_texts(digest, name, value)
        if not self.has_ids:
            _digest_texts(digest, "pieces", self.pieces())
        return digest.hexdigest()

    def __len__(self) -> int:
        return len(self.trajectories)

    def __iter__(self) -> Iterator[Trajectory]:
        return iter(self.trajectories)

    def __repr__(self) -> str:
        kind = "ids" if self.has_ids else "words"
        return (
            f"Batch({len(self)} trajectories in {len(self.group_names)} groups, {len(self.traj_of_S)} steps, "
            f"{len(self.ids_T)} tokens ({kind}), {int(self.sampled_T.sum())} sampled)"
        )


def from_checked(trajectories: Iterable[Trajectory]) -> Batch:
    """`Batch.from_trajectories` for a reader, which has checked every trajectory when it read it."""
    return _from(trajectories, checked=True)


def _from(trajectories: Iterable[Trajectory], *, checked: bool) -> Batch:
    rollouts = tuple(trajectories)
    check_batch(rollouts, checked=checked)
    return _build(rollouts)


def _digest_array(digest: Any, name: str, array: Array) -> None:
    digest.update(f"{name} {array.size}:".encode())
    digest.update(np.ascontiguousarray(array).tobytes())


def _digest_texts(digest: Any, name: str, texts: Iterable[str]) -> None:
    """Lengths first, so that no two lists of texts run together to the same bytes."""
    for text in texts:
        encoded = text.encode("utf-8", "surrogatepass")
        digest.update(f"{name} {len(encoded)}:".encode())
        digest.update(encoded)


def _build(rollouts: tuple[Trajectory, ...]) -> Batch:
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
    else:
        ids_T = np.full(len(step_of_T), -1, dtype=np.int64)
        if tokens:
            ids_T[has_ids_N[traj_of_S[step_of_T]]] = np.concatenate(tokens)

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
    batch = Batch(
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
    for name in Batch.__slots__:
        value = getattr(batch, name)
        for array in value.values() if isinstance(value, dict) else (value,):
            if isinstance(array, np.ndarray):
                array.flags.writeable = False
    return batch


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
