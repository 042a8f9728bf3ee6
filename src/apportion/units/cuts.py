"""The cuts that follow the structure of a rollout: episode, turn, step, token, agent."""

from __future__ import annotations

import numpy as np

from apportion.data import Batch
from apportion.numerics import Array, labels
from apportion.units.cut import cut
from apportion.units.state_keys import StateRule, state_label
from apportion.units.units import Units


def by_episode(batch: Batch, *, state: StateRule = None) -> Units:
    """One unit per trajectory: everything the policy sampled in it."""
    first = np.flatnonzero(np.append(True, np.diff(batch.traj_of_S) > 0))
    return _of_steps(batch, "episode", batch.traj_of_S, first, state)


def by_turn(batch: Batch, *, state: StateRule = None) -> Units:
    """One unit per turn: what lies between two changes of speaker; a turn with three tool calls has three steps."""
    change = (np.diff(batch.traj_of_S) > 0) | (np.diff(batch.turn_S) != 0)
    first = np.flatnonzero(np.append(True, change))
    return _of_steps(batch, "turn", np.cumsum(np.append(0, change)), first, state)


def by_step(batch: Batch, *, state: StateRule = None) -> Units:
    """One unit per step (state, action, reward, next state): the basic unit of reinforcement learning.

    Args:
        batch: the rollouts.
        state: what counts as one state: a name of `STATES`, a function of one text, or an object with ``keys`` that
            sees every text of a group; default the text itself.
    """
    steps = np.arange(len(batch.traj_of_S), dtype=np.int64)
    return _of_steps(batch, "step", steps, steps, state)


def by_agent(batch: Batch, *, state: StateRule = None) -> Units:
    """One unit per agent and trajectory, in order of first appearance; an agent's tokens need not be contiguous."""
    unit = labels(batch.traj_of_S, batch.agent_S)
    first = np.flatnonzero(np.append(True, np.maximum.accumulate(unit)[1:] > np.maximum.accumulate(unit)[:-1]))
    return _of_steps(batch, "agent", unit, first, state)


def by_token(batch: Batch) -> Units:
    """One unit per sampled token. Has values, log-probabilities and entropies where the data have them; no states."""
    unit_of_T = np.where(batch.sampled_T, np.cumsum(batch.sampled_T) - 1, -1)
    return cut(batch, "token", unit_of_T, batch.step_of_T[batch.sampled_T], has_states=False)


def _of_steps(batch: Batch, level: str, unit_of_step: Array, first: Array, state: StateRule) -> Units:
    unit_of_step = unit_of_step.astype(np.int64)
    unit_of_T = np.where(batch.sampled_T, unit_of_step[batch.step_of_T], -1)
    options = {} if state is None else {"state": state_label(state)}
    return cut(batch, level, unit_of_T, first.astype(np.int64), unit_of_step, state=state, options=options)
