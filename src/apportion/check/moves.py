"""What the checks of states read: keys, observations, actions and successors of the steps, as flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from apportion.data import Batch, Step
from apportion.numerics import Array, BoolArray, IntArray, labels
from apportion.units import Units

END = -1
"""In `Moves.next_S`: nothing follows."""


def steps_of(batch: Batch) -> list[Step]:
    """Every step of the batch, in order."""
    return [step for trajectory in batch.trajectories for step in trajectory.steps]


def step_name(batch: Batch, s: int) -> str:
    """``rollout 'a', step 3``, counted from 0 as everywhere."""
    n = int(batch.traj_of_S[s])
    first = int(np.searchsorted(batch.traj_of_S, n))
    return f"rollout {batch.names()[n]!r}, step {s - first}"


def action_keys(steps: Sequence[Step]) -> list[object]:
    """What was done in each step, comparable: the text, else the ids."""
    return [
        step.action if step.action is not None else None if step.ids is None else np.asarray(step.ids).tobytes()
        for step in steps
    ]


def next_of(batch: Batch) -> IntArray:
    """The step that follows each step, `END` where none does; the first one where a rollout forks."""
    out = np.full(len(batch.traj_of_S), END, dtype=np.int64)
    child = np.flatnonzero(batch.parent_S >= 0)[::-1]
    out[batch.parent_S[child]] = child  # reversed order: the first child stays
    return out


@dataclass(frozen=True)
class Moves:
    """Steps as moves between states; every column is worked out when it is first used.

    Attributes:
        units: cut by step, with the keys of the states.
    """

    units: Units

    @property
    def batch(self) -> Batch:
        """The rollouts."""
        return self.units.batch

    @cached_property
    def steps(self) -> list[Step]:
        """As given."""
        return steps_of(self.batch)

    @cached_property
    def key_S(self) -> IntArray:
        """Number of the state's key, the same in every group."""
        assert self.units.state_S is not None
        return labels(self.units.state_S.tolist())

    @cached_property
    def state_S(self) -> IntArray:
        """Number of the state: key and group."""
        return labels(self.key_S, self.units.group_of_S)

    @cached_property
    def action_S(self) -> IntArray:
        """Number of the action."""
        return labels(action_keys(self.steps))

    @cached_property
    def seen_S(self) -> IntArray:
        """Number of the observation's text; steps without one have -1."""
        texts = [step.observation for step in self.steps]
        numbers = labels(["" if text is None else text for text in texts])
        return np.where([text is None for text in texts], -1, numbers)

    @cached_property
    def next_S(self) -> IntArray:
        """See `next_of`."""
        return next_of(self.batch)

    @cached_property
    def time_S(self) -> IntArray:
        """Place of each step in its rollout, from 0."""
        traj_of_S = self.batch.traj_of_S
        return np.arange(len(traj_of_S)) - np.searchsorted(traj_of_S, traj_of_S)

    @cached_property
    def comparable_S(self) -> BoolArray:
        """The group of the step has several rollouts."""
        size_G = np.bincount(self.batch.group_of_N, minlength=1)
        out: BoolArray = size_G[self.units.group_of_S] > 1
        return out

    def key_text(self, s: int, longest: int = 80) -> str:
        """The key of a step's state, cut to a readable length."""
        assert self.units.state_S is not None
        return short(self.units.state_S[s], longest)


def short(text: object, longest: int = 80) -> str:
    """A text for a sentence."""
    flat = " ".join(str(text).split())
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def distinct_per(group: Array, value: Array) -> tuple[Array, IntArray]:
    """The different groups, and how many different values each holds."""
    pairs = np.unique(np.stack((group, value), axis=1), axis=0)
    names, count = np.unique(pairs[:, 0], return_counts=True)
    return names, count.astype(np.int64)
