"""From a labelling of the sampled tokens to `Units`: the one place that aggregates columns and places rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apportion.data import Batch
from apportion.numerics import Array, FloatArray, IntArray, seg_count, seg_mean, seg_sum
from apportion.units.state_keys import StateRule, state_keys, state_rule
from apportion.units.units import Units


def cut(
    batch: Batch,
    level: str,
    unit_of_T: IntArray,
    step_of_S: IntArray,
    unit_of_step: IntArray | None = None,
    *,
    state: StateRule = None,
    has_states: bool = True,
    options: Mapping[str, Any] | None = None,
) -> Units:
    """Aggregate every column of the batch over the given units.

    Args:
        batch: the rollouts.
        level: name of the cut.
        unit_of_T: unit of each token, -1 where not sampled; units numbered in time order, trajectory by trajectory.
        step_of_S: first step of each unit.
        unit_of_step: unit that each step's reward arrives with; default the unit of its last sampled token, of the
            token before that where the step has none, of the first one after where there is none before.
        state: what counts as one state, see `StateRule`; default the text itself.
        has_states: False for cuts inside a step, whose units share a state.
        options: arguments of the cut, for the record.
    """
    s_count = len(step_of_S)
    own = unit_of_T >= 0
    unit = unit_of_T[own]
    traj_of_S = batch.traj_of_S[step_of_S]
    if unit_of_step is None:
        unit_of_step = unit_of_last_token(batch, unit_of_T)
    sizes = seg_count(unit, n=s_count)
    filled_N = seg_count(traj_of_S, n=len(batch)) > 0
    valid_N = batch.valid_N & filled_N
    return Units(
        batch=batch,
        level=level,
        unit_of_T=unit_of_T,
        traj_of_S=traj_of_S,
        group_of_N=batch.group_of_N,
        reward_S=_rewards(batch, unit_of_step, traj_of_S),
        outcome_N=np.where(valid_N, batch.outcome_N, 0.0),
        valid_N=valid_N,
        tokens_S=sizes,
        step_of_S=step_of_S,
        turn_S=batch.turn_S[step_of_S],
        agent_S=batch.agent_S[step_of_S],
        parent_S=_parents(batch, step_of_S, unit_of_step),
        final_value_N=batch.final_value_N,
        truncated_N=batch.truncated_N,
        state_S=_states(batch, step_of_S, state) if has_states else None,
        value_S=values_of(batch, level, unit_of_T, step_of_S),
        logp_S=None if batch.logp_T is None else seg_sum(batch.logp_T[own], unit, n=s_count),
        ref_logp_S=None if batch.ref_logp_T is None else seg_sum(batch.ref_logp_T[own], unit, n=s_count),
        entropy_S=None if batch.entropy_T is None else seg_mean(batch.entropy_T[own], unit, n=s_count),
        columns={name: seg_sum(column_T[own], unit, n=s_count) for name, column_T in batch.columns_T.items()},
        reward_parts={name: reward_part(part_S, unit_of_step, s_count) for name, part_S in batch.reward_parts.items()},
        outcome_parts=batch.outcome_parts,
        options=dict(options or {}),
    )


def unit_of_last_token(batch: Batch, unit_of_T: IntArray) -> IntArray:
    """Unit of each step's last sampled token, of the token before that where it has none, else of the token after."""
    own = np.flatnonzero(unit_of_T >= 0)
    unit, traj_of_S = unit_of_T[own], batch.traj_of_S
    out = np.full(len(traj_of_S), -1, dtype=np.int64)
    out[batch.step_of_T[own]] = unit  # later tokens overwrite earlier ones: the last one stays
    filled = np.maximum.accumulate(np.where(out >= 0, np.arange(len(out)), -1))
    before = (filled >= 0) & (traj_of_S[filled] == traj_of_S)
    first_N = np.full(len(batch), -1, dtype=np.int64)
    first_N[batch.traj_of_T[own][::-1]] = unit[::-1]
    return np.where(before, out[filled], first_N[traj_of_S]).astype(np.int64)


def _rewards(batch: Batch, unit_of_step: IntArray, traj_of_S: IntArray) -> FloatArray:
    """Step rewards on their units; what an outcome has beyond them on the trajectory's last unit.

    The latter only where the last step has no reward of its own: then the outcome tells what arrived there.
    """
    s_count, n = len(traj_of_S), len(batch)
    placed = batch.scored_S & (unit_of_step >= 0)
    reward_S = seg_sum(batch.reward_S, np.maximum(unit_of_step, 0), where=placed, n=max(s_count, 1))[:s_count]
    told_N = seg_sum(batch.reward_S, batch.traj_of_S, where=batch.scored_S, n=n)
    last_N = np.full(n, -1, dtype=np.int64)
    last_N[traj_of_S] = np.arange(s_count)
    last_step_N = np.flatnonzero(np.append(batch.traj_of_S[1:] != batch.traj_of_S[:-1], True))
    open_N = ~batch.scored_S[last_step_N] & batch.scored_N & (last_N >= 0)
    reward_S[last_N[open_N]] += (batch.outcome_N - told_N)[open_N]
    return reward_S


def reward_part(part_S: FloatArray, unit_of_step: IntArray, s_count: int) -> FloatArray:
    """One named part on the units that its steps' rewards arrive with; NaN where no step tells it."""
    told = np.isfinite(part_S) & (unit_of_step >= 0)
    unit = np.maximum(unit_of_step, 0)
    total = seg_sum(part_S, unit, where=told, n=max(s_count, 1))[:s_count]
    return np.where(seg_count(unit, where=told, n=max(s_count, 1))[:s_count] > 0, total, np.nan)


def _parents(batch: Batch, step_of_S: IntArray, unit_of_step: IntArray) -> IntArray:
    """The previous unit of the same step, else the (last) unit of the parent step; -1 at a root."""
    s_count = len(step_of_S)
    index = np.arange(s_count, dtype=np.int64)
    parent_step = batch.parent_S[step_of_S]
    out = np.where(parent_step >= 0, unit_of_step[np.maximum(parent_step, 0)], -1)
    same_step = np.append(False, step_of_S[1:] == step_of_S[:-1])[:s_count]
    out = np.where(same_step, index - 1, out)
    traj = batch.traj_of_S[step_of_S]
    # a step whose reward went to a later unit (empty first action) has nothing before it
    return np.where((out >= index) | ((out >= 0) & (traj[np.maximum(out, 0)] != traj)), -1, out).astype(np.int64)


def _states(batch: Batch, step_of_S: IntArray, state: StateRule) -> Array:
    text = batch.state_S[step_of_S]
    group = batch.group_of_N[batch.traj_of_S[step_of_S]]
    out = np.empty(len(text), dtype=object)
    out[:] = state_keys(text.tolist(), group.tolist(), state_rule(state, batch))
    blank = [s for s, item in enumerate(text) if item == "" or item.startswith("ids:")]
    steps = [step for trajectory in batch for step in trajectory.steps] if blank else []
    for s in blank:
        step = steps[step_of_S[s]]
        if step.state is None and step.observation is None and (step.prompt_ids is None or not len(step.prompt_ids)):
            out[s] = f"⟨nothing seen before step {step_of_S[s]}⟩"  # not logged: no state to meet again in
    return out


def values_of(batch: Batch, level: str, unit_of_T: IntArray, step_of_S: IntArray) -> FloatArray | None:
    """Value before each unit: that of its first token, else (for cuts no finer than a step) that of its step."""
    if level not in ("token", "segment", "tree") and batch.value_S is not None:
        return batch.value_S[step_of_S]
    if batch.token_value_T is None:
        return None
    own = np.flatnonzero(unit_of_T >= 0)[::-1]
    first_T = np.full(len(step_of_S), -1, dtype=np.int64)
    first_T[unit_of_T[own]] = own  # reversed order: the first token stays
    if (first_T < 0).any():
        return None
    return batch.token_value_T[first_T]
