"""What a fitted model says of rollouts that are still under way: a promise after each step, for a search to choose by.

With r the rewards, E[t] = sum of gamma^k r[k] over k < t, and T steps:

    AgentPRM       M[t]                                    the outcome that it expects; no reward is read
    ArCHerCritic   E[t] + gamma^t min_j Q_j(s_t, a_t)
    ValueHead      E[t+1] + gamma^(t+1) V(s_{t+1})         where a state follows
                   E[T-1] + gamma^(T-1) V(s_{T-1})         behind the last action, of which states say nothing

So no promise reads the reward of the step that ended a rollout: a search that chose by it would know the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from apportion.data import Batch, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.models.agentprm import AgentPRM
from apportion.models.archer import ArCHerCritic
from apportion.models.value_head import ValueHead
from apportion.numerics import FloatArray

ABLE = "agentprm, value_head (--level step) or archer"


class Promises:
    """Promises of one fitted model, reward units, and what reading them has cost.

    A rollout under way may end with a pending step: the context that the policy sees next (``prompt_ids``) and no
    sampled ids. It has no promise of its own; a value head reads the state there.

    Args:
        model: `AgentPRM`, `ArCHerCritic`, or `ValueHead` of steps or turns.

    Attributes:
        steps: promises given so far. tokens: token ids that the model read for them.

    Raises:
        ConfigError: a model that says nothing of what is still to come after a step.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.steps = self.tokens = 0
        self.gamma, self.states = 1.0, False
        self._read: Callable[[Batch], FloatArray]
        if isinstance(model, AgentPRM):
            self._read = model.promises
        elif isinstance(model, ArCHerCritic):
            self._read, self.gamma = self._q, model.gamma
        elif isinstance(model, ValueHead):
            if model.level == "token":
                raise ConfigError(
                    "a value head of level 'token' gives values before tokens, and a search chooses among steps; "
                    "fit it with --level step"
                )
            self._read, self.gamma, self.states = self._v, model.gamma, True
        else:
            raise ConfigError(
                f"a search needs a model that says after each step what is still to come, and {type(model).__name__} "
                f"does not; fit {ABLE}"
            )

    def all(self, rollouts: Sequence[Trajectory]) -> list[FloatArray]:
        """The promise after each step of each rollout; of a pending step none."""
        read = self._counted(rollouts)
        out, first = [], 0
        for rollout in rollouts:
            size, real = len(rollout.steps), _real(rollout)
            earned = _earned(rollout, self.gamma)
            at = np.minimum(np.arange(1, real + 1), size - 1) if self.states else np.arange(real)
            out.append(self._promise(read[first : first + size], at, earned))
            first, self.steps = first + size, self.steps + real
        return out

    def last(self, rollouts: Sequence[Trajectory]) -> FloatArray:
        """The promise after the last step that is not pending; only the context that it stands in is read."""
        at = [len(t.steps) - 1 if self.states else _real(t) - 1 for t in rollouts]
        parts = [_context(t, k) for t, k in zip(rollouts, at, strict=True)]
        read = self._counted(parts)
        ends = np.cumsum([len(t.steps) for t in parts]) - 1
        self.steps += len(rollouts)
        found = [
            self._promise(read[[end]], np.array([k]), _earned(t, self.gamma), shift=k)[0]
            for t, k, end in zip(rollouts, at, ends.tolist(), strict=True)
        ]
        return np.array(found, dtype=np.float64)

    def _promise(self, read: FloatArray, at: Any, earned: FloatArray, *, shift: int = 0) -> FloatArray:
        told: FloatArray = read[at - shift]
        return told if isinstance(self.model, AgentPRM) else earned[at] + self.gamma**at * told

    def _counted(self, rollouts: Sequence[Trajectory]) -> FloatArray:
        """The model's number of each step, (S,); its trunk's tokens are counted as it reads them."""

        def count(_: Any, given: tuple[Any, ...], __: Any) -> None:
            self.tokens += sum(map(len, given[0]))

        watched = self.model.backbone.register_forward_hook(count)
        try:
            return self._read(Batch.from_trajectories(rollouts))
        finally:
            watched.remove()

    def _q(self, batch: Batch) -> FloatArray:
        q = self.model.q(batch)
        if len(q) != len(batch.traj_of_S):
            raise DataError(
                "ArCHerCritic: a turn of these rollouts has several steps, and a search chooses among steps; fit it "
                "with --level step"
            )
        out: FloatArray = q.min(axis=1)
        return out

    def _v(self, batch: Batch) -> FloatArray:
        rows = self.model.rows(batch)
        out: FloatArray = self.model.values_at(rows, rows.row_of_S, rows.at_S)
        return out


def _real(rollout: Trajectory) -> int:
    """Steps that are not pending."""
    last = rollout.steps[-1]
    pending = last.ids is not None and not len(last.ids) and not (last.terminated or last.truncated)
    return len(rollout.steps) - int(pending)


def _context(rollout: Trajectory, at: int) -> Trajectory:
    """The steps of the context that a step acts in, up to that step."""
    first = max((k for k in range(at + 1) if rollout.steps[k].fresh), default=0)
    return replace(rollout, steps=rollout.steps[first : at + 1], id=None)


def _earned(rollout: Trajectory, gamma: float) -> FloatArray:
    """E[0], …, E[T-1]."""
    reward = np.array([step.reward or 0.0 for step in rollout.steps])
    return np.append(0.0, np.cumsum(gamma ** np.arange(len(reward)) * reward)[:-1])
