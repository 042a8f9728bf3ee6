"""`Batch`: N ragged trajectories as flat, read-only arrays with maps that point up.

    token → step → trajectory → group          step_of_T   traj_of_S   group_of_N

Every token of every step is in the T axis, in time order: the new context of a step (prompt, observation),
then what the policy sampled (``sampled_T``). Letters cancel: ``group_of_N[traj_of_S]`` is each step's group.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.data.check import check_batch
from apportion.data.layout import laid_out
from apportion.data.trajectory import Trajectory
from apportion.data.words import words
from apportion.numerics import Array, BoolArray, FloatArray, IntArray

_TEXTS = 1 << 14
"""Texts that are digested together."""


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
    return Batch(**laid_out(rollouts))


def _digest_array(digest: Any, name: str, array: Array) -> None:
    digest.update(f"{name} {array.size}:".encode())
    digest.update(np.ascontiguousarray(array).tobytes())


def _digest_texts(digest: Any, name: str, texts: Iterable[str]) -> None:
    """Lengths first, so that no two lists of texts run together to the same bytes."""
    rest = iter(texts)
    while some := list(itertools.islice(rest, _TEXTS)):
        told = dict.fromkeys(some, b"")  # words recur
        for text in told:
            encoded = text.encode("utf-8", "surrogatepass")
            told[text] = f"{name} {len(encoded)}:".encode() + encoded
        digest.update(b"".join(map(told.__getitem__, some)))
