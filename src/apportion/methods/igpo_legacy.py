"""The released loop of IGPO (November 2025), with what it does to observations."""

from __future__ import annotations

import numpy as np

from apportion.numerics import Array, FloatArray, seg_mean, to_go
from apportion.units import Units


def at_same_position(units: Units, reward_S: FloatArray, gamma: float) -> FloatArray:
    """Returns that stop at observations, minus the group's mean at the same token position; mean over a unit's tokens.

        G[t] = r[t] + gamma * G[t+1] * 1[t+1 was sampled]          A[t] = G[t] - mean_group G[t]

    Token positions count from a rollout's first sampled token, observations included. A unit's reward stands on the
    token before the next unit begins: if that is an observation, the unit never sees it, but the mean at that position
    does. Members that are shorter count as 0 where they do not reach; invalid ones are left out, which the code does
    not do.

    Args:
        units: a chain of units per trajectory. reward_S: reward of each unit. gamma: discount per token.

    Returns:
        (S,), 0 for units without tokens.
    """
    batch = units.batch
    sampled_T, traj_T = batch.sampled_T, batch.traj_of_T
    own_T = np.flatnonzero(sampled_T)
    first_N = np.full(len(units.group_of_N), -1, dtype=np.int64)
    first_N[traj_T[own_T[::-1]]] = own_T[::-1]
    position_T = np.arange(len(sampled_T)) - first_N[traj_T]
    reward_T = _on_ends(units, reward_S)
    # a run of sampled tokens is summed on its own: nothing crosses an observation or the end of a rollout
    begins_T = np.ones(len(sampled_T), dtype=bool)
    begins_T[1:] = (sampled_T[1:] != sampled_T[:-1]) | (traj_T[1:] != traj_T[:-1])
    return_T = to_go(reward_T, np.cumsum(begins_T) - 1, gamma=gamma)
    before = np.flatnonzero(~sampled_T[:-1] & sampled_T[1:] & (traj_T[:-1] == traj_T[1:]))
    return_T = np.where(sampled_T, return_T, reward_T)
    return_T[before] += gamma * return_T[before + 1]  # an observation's last token sees the turn behind it
    counted_T = (position_T >= 0) & (first_N[traj_T] >= 0) & units.valid_N[traj_T]
    size_G = np.bincount(units.group_of_N[units.valid_N], minlength=int(units.group_of_N.max(initial=-1)) + 1)
    total: dict[tuple[int, int], float] = {}
    places = list(zip(units.group_of_N[traj_T].tolist(), position_T.tolist(), strict=True))
    for t in np.flatnonzero(counted_T).tolist():
        total[places[t]] = total.get(places[t], 0.0) + float(return_T[t])
    advantage_T = np.zeros(len(sampled_T))
    for t in np.flatnonzero(counted_T).tolist():
        advantage_T[t] = return_T[t] - total[places[t]] / int(size_G[places[t][0]])  # observations are in no unit
    unit_T = units.unit_of_T
    return seg_mean(advantage_T[unit_T >= 0], unit_T[unit_T >= 0], n=len(units))


def _on_ends(units: Units, reward_S: FloatArray) -> Array:
    """Each unit's reward on the token before the next unit begins, the last unit's on its own last token."""
    unit_T = units.unit_of_T
    out_T = np.zeros(len(unit_T))
    own_T = np.flatnonzero(unit_T >= 0)
    first_S, last_S = np.full(len(units), -1, dtype=np.int64), np.full(len(units), -1, dtype=np.int64)
    first_S[unit_T[own_T[::-1]]] = own_T[::-1]
    last_S[unit_T[own_T]] = own_T
    filled = np.flatnonzero(first_S >= 0)
    for s, after in zip(filled.tolist(), [*filled[1:].tolist(), -1], strict=True):
        same = after >= 0 and units.traj_of_S[after] == units.traj_of_S[s]
        out_T[first_S[after] - 1 if same else last_S[s]] += reward_S[s]
    return out_T
