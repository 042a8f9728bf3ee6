"""The cuts that follow the structure of a rollout: episode, turn, step, token, agent."""

from __future__ import annotations

import numpy as np

from apportion.data import Batch
from apportion.numerics import IntArray, labels
from apportion.units.cut import cut
from apportion.units.state_keys import StateRule, state_label
from apportion.units.units import Units


def by_episode(batch: Batch, *, state: StateRule = None) -> Units:
    """One unit per trajectory: everything the policy sampled in it."""
    return _of_steps(batch, "episode", state)


def by_turn(batch: Batch, *, state: StateRule = None) -> Units:
    """One unit per turn: what lies between two changes of speaker; a turn with three tool calls has three steps."""
    return _of_steps(batch, "turn", state)


def by_step(batch: Batch, *, state: StateRule = None) -> Units:
    """One unit per step (state, action, reward, next state): the basic unit of reinforcement learning.

    Args:
        batch: the rollouts.
        state: what counts as one state: a name of `STATES`, a function of one text, or an object with ``keys`` that
            sees every text of a group; default the text itself.
    """
    return _of_steps(batch, "step", state)


def by_agent(batch: Batch, *, state: StateRule = None) -> Units:
    """One unit per agent and trajectory, in order of first appearance; an agent's tokens need not be contiguous."""
    return _of_steps(batch, "agent", state)


def by_token(batch: Batch) -> Units:
    """One unit per sampled token. Has values, log-probabilities and entropies where the data have them; no states."""
    unit_of_T = np.where(batch.sampled_T, np.cumsum(batch.sampled_T) - 1, -1)
    return cut(batch, "token", unit_of_T, batch.step_of_T[batch.sampled_T], has_states=False)


def steps_in_units(batch: Batch, level: str) -> tuple[IntArray, IntArray]:
    """Unit of each step, and first step of each unit, for a cut that is no finer than a step."""
    if level == "step":
        steps = np.arange(len(batch.traj_of_S), dtype=np.int64)
        return steps, steps
    if level == "agent":
        unit = labels(batch.traj_of_S, batch.agent_S)
        reached = np.maximum.accumulate(unit)
        return unit, np.flatnonzero(np.append(True, reached[1:] > reached[:-1]))
    change = np.diff(batch.traj_of_S) > 0
    if level == "turn":
        change |= np.diff(batch.turn_S) != 0
    return np.cumsum(np.append(0, change)), np.flatnonzero(np.append(True, change))


def _of_steps(batch: Batch, level: str, state: StateRule) -> Units:
    unit_of_step, first = steps_in_units(batch, level)
    unit_of_T = np.where(batch.sampled_T, unit_of_step[batch.step_of_T], -1)
    options = {} if state is None else {"state": state_label(state)}
    return cut(batch, level, unit_of_T, first, unit_of_step, state=state, options=options)
