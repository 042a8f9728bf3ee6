"""Which units act after exactly the same tokens of the same task, and what came of it in the other rollouts."""

from __future__ import annotations

import hashlib

import numpy as np

from apportion.numerics import IntArray, to_go
from apportion.units import Units


def history_S(units: Units) -> IntArray:
    """Label of what each unit's policy had before it: equal for equal tokens (context and sampled) in one group.

    Shapes: (S,). Linear in the tokens.
    """
    batch = units.batch
    ids_T = batch.ids_T if batch.has_ids else _words(units)
    at_S = _before(units)
    first_S = np.searchsorted(batch.traj_of_S[batch.step_of_T], np.arange(len(units.group_of_N)))
    labels: dict[tuple[int, bytes], int] = {}
    out = np.zeros(len(units), dtype=np.int64)
    traj, done, digest = -1, 0, hashlib.blake2b(digest_size=16)
    for s in range(len(units)):
        if units.traj_of_S[s] != traj:
            traj = int(units.traj_of_S[s])
            done, digest = int(first_S[traj]), hashlib.blake2b(digest_size=16)
        digest.update(ids_T[done : at_S[s]].tobytes())
        done = int(at_S[s])
        out[s] = labels.setdefault((int(units.group_of_N[traj]), digest.digest()), len(labels))
    return out


def returns_of_others(units: Units, gamma: float) -> list[list[float]]:
    """For each unit, the discounted returns to go of the valid other rollouts of its group that had its history.

    Each other rollout counts once. Reward units; in the order of the rollouts.
    """
    label_S = history_S(units)
    return_S = to_go(units.reward_S, units.traj_of_S, gamma=gamma)
    visits: dict[int, dict[int, float]] = {}
    for s in np.flatnonzero(units.valid_S).tolist():
        visits.setdefault(int(label_S[s]), {}).setdefault(int(units.traj_of_S[s]), float(return_S[s]))
    empty: dict[int, float] = {}
    return [
        [value for n, value in visits.get(int(label_S[s]), empty).items() if n != units.traj_of_S[s]]
        for s in range(len(units))
    ]


def _before(units: Units) -> IntArray:
    """Position in the T axis where each unit begins; of one without tokens, where its step's action would stand."""
    batch = units.batch
    steps = np.arange(len(batch.traj_of_S))
    context_S = np.bincount(batch.step_of_T[~batch.sampled_T], minlength=len(steps))
    at_S = (np.searchsorted(batch.step_of_T, steps) + context_S)[units.step_of_S]
    own_T = np.flatnonzero(units.unit_of_T >= 0)[::-1]
    at_S[units.unit_of_T[own_T]] = own_T  # the first token of a unit is written last
    return at_S


def _words(units: Units) -> IntArray:
    ids: dict[str, int] = {}
    return np.array([ids.setdefault(piece, len(ids)) for piece in units.batch.pieces()], dtype=np.int64)
