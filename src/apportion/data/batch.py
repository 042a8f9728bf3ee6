"""`Batch`: N ragged trajectories as flat, read-only arrays with maps that point up.

    token → step → trajectory → group          step_of_T   traj_of_S   group_of_N

Every token of every step is in the T axis, in time order: the new context of a step (prompt, observation),
then what the policy sampled (``sampled_T``). Letters cancel: ``group_of_N[traj_of_S]`` is each step's group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.data.check import check_batch, where
from apportion.data.trajectory import Step, Trajectory
from apportion.data.words import words
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
        rollouts = tuple(trajectories)
        check_batch(rollouts)
        return _build(rollouts)

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
    steps = [step for trajectory in rollouts for step in trajectory.steps]
    length_N = np.array([len(trajectory.steps) for trajectory in rollouts], dtype=np.int64)
    first_N = np.concatenate(([0], np.cumsum(length_N)[:-1])).astype(np.int64)
    traj_of_S = np.repeat(np.arange(len(rollouts), dtype=np.int64), length_N)
    has_ids_N = _has_ids(rollouts)

    context_S = np.array([_context_size(step) for step in steps], dtype=np.int64)
    action_S = np.array([_action_size(step) for step in steps], dtype=np.int64)
    both = np.stack((context_S, action_S), axis=1).reshape(-1)
    sampled_T = np.repeat(np.tile([False, True], len(steps)), both)
    step_of_T = np.repeat(np.arange(len(steps), dtype=np.int64), context_S + action_S)

    ids_T = np.full(len(step_of_T), -1, dtype=np.int64)
    with_ids = [
        ids for step in steps for ids in (step.prompt_ids, step.ids) if step.ids is not None and ids is not None
    ]
    ids_T[has_ids_N[traj_of_S[step_of_T]]] = np.concatenate(with_ids) if with_ids else []

    group_ids: dict[str, int] = {}
    group_of_N = np.array([group_ids.setdefault(name, len(group_ids)) for name in _groups(rollouts)], dtype=np.int64)
    last = [trajectory.steps[-1] for trajectory in rollouts]
    total = [trajectory.total for trajectory in rollouts]
    turn_S, parent_S = _turns_and_parents(rollouts, first_N)
    has_value = all(step.value is not None for step in steps)
    columns = {
        name: _per_token(steps, [getattr(step, field) for step in steps], sampled_T)
        for name, field in PER_TOKEN.items()
    }
    named = {
        name: _per_token(steps, [step.columns.get(name) for step in steps], sampled_T)
        for name in _names(step.columns for step in steps)
    }

    def of_steps(name: str) -> BoolArray:
        return np.array([getattr(step, name) for step in steps], dtype=bool)

    failed_S = of_steps("failed")
    batch = Batch(
        trajectories=rollouts,
        ids_T=ids_T,
        sampled_T=sampled_T,
        step_of_T=step_of_T,
        columns_T={name: column for name, column in named.items() if column is not None},
        traj_of_S=traj_of_S,
        reward_S=np.array([0.0 if step.reward is None else step.reward for step in steps]),
        scored_S=np.array([step.reward is not None for step in steps], dtype=bool),
        reward_parts=_parts([step.rewards for step in steps]),
        value_S=np.array([step.value for step in steps], dtype=np.float64) if has_value else None,
        state_S=_objects([_state(step) for step in steps]),
        turn_S=turn_S,
        agent_S=_objects([step.agent or "" for step in steps]),
        parent_S=parent_S,
        terminated_S=of_steps("terminated"),
        truncated_S=of_steps("truncated"),
        failed_S=failed_S,
        fresh_S=of_steps("fresh"),
        group_of_N=group_of_N,
        group_names=tuple(group_ids),
        outcome_N=np.array([0.0 if x is None else x for x in total], dtype=np.float64),
        scored_N=np.array([x is not None for x in total], dtype=bool),
        outcome_parts=_parts([trajectory.outcomes for trajectory in rollouts]),
        final_value_N=np.array(
            [np.nan if t.final_value is None else t.final_value for t in rollouts], dtype=np.float64
        ),
        truncated_N=np.array([step.truncated and not step.terminated for step in last], dtype=bool),
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


def _has_ids(rollouts: Sequence[Trajectory]) -> BoolArray:
    out = np.zeros(len(rollouts), dtype=bool)
    for n, trajectory in enumerate(rollouts):
        kinds = {step.ids is not None for step in trajectory.steps}
        if len(kinds) == 2:
            raise DataError(
                f"{where(n, trajectory)}: some steps have ids and some only text; give ids for every step, or none"
            )
        out[n] = kinds.pop()
    return out


def _context_size(step: Step) -> int:
    if step.ids is None:
        return len(words(step.observation or ""))
    return 0 if step.prompt_ids is None else len(step.prompt_ids)


def _action_size(step: Step) -> int:
    return len(words(step.action or "")) if step.ids is None else len(step.ids)


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


def _state(step: Step) -> str:
    if step.state is not None:
        return step.state
    if step.observation is not None:
        return step.observation
    if step.prompt_ids is None:
        return ""
    return "ids:" + hashlib.blake2b(np.asarray(step.prompt_ids).tobytes(), digest_size=16).hexdigest()


def _turns_and_parents(rollouts: Sequence[Trajectory], first_N: IntArray) -> tuple[IntArray, IntArray]:
    turns: list[int] = []
    parents: list[int] = []
    for trajectory, first in zip(rollouts, first_N.tolist(), strict=True):
        turn, agent = -1, None
        for s, step in enumerate(trajectory.steps):
            if step.turn is not None:
                turn = step.turn
            elif s == 0 or step.fresh or _context_size(step) > 0 or step.agent != agent:
                turn += 1
            agent = step.agent
            turns.append(turn)
            parent = s - 1 if step.parent is None else step.parent
            parents.append(first + parent if parent >= 0 else -1)
    return np.array(turns, dtype=np.int64), np.array(parents, dtype=np.int64)


def _names(holders: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every name, in order of first appearance."""
    return list(dict.fromkeys(name for holder in holders for name in holder))


def _parts(holders: Sequence[Mapping[str, float]]) -> dict[str, FloatArray]:
    return {name: np.array([holder.get(name, np.nan) for holder in holders]) for name in _names(holders)}


def _per_token(steps: Sequence[Step], parts: Sequence[Any], sampled_T: BoolArray) -> FloatArray | None:
    if any(part is None and _action_size(step) for part, step in zip(parts, steps, strict=True)):
        return None
    out = np.zeros(len(sampled_T))
    if not sampled_T.any():  # no token lacks one
        return out
    out[sampled_T] = np.concatenate([part for part in parts if part is not None])
    return out


def _objects(items: Sequence[str]) -> Array:
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out
