"""Where units begin and end, as places of a rollout that can be asked about."""

from __future__ import annotations

import numpy as np

from apportion.asks import Place, Span
from apportion.numerics import IntArray
from apportion.units import Units


def starts(units: Units) -> list[Place]:
    """The moment before each unit: its context, and what the policy had written of that step."""
    step_S, token_S = _first(units)
    return [Place(*at) for at in zip(units.traj_of_S.tolist(), step_S.tolist(), token_S.tolist(), strict=True)]


def spans(units: Units) -> list[tuple[Span, ...]]:
    """The sampled tokens of each unit, one run for each step that it reaches into; none for a unit without tokens."""
    unit_T = units.unit_of_T
    own_T = np.flatnonzero(unit_T >= 0)
    step_T, token_T = _inside(units)
    unit, step, token = unit_T[own_T], step_T[own_T], token_T[own_T]
    begins = np.ones(len(own_T), dtype=bool)
    begins[1:] = (np.diff(unit) != 0) | (np.diff(step) != 0) | (np.diff(token) != 1)
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(own_T))[: len(first)] - 1
    local = step - _first_step(units)[units.traj_of_S[unit]]
    out: list[list[Span]] = [[] for _ in range(len(units))]
    for a, b in zip(first.tolist(), last.tolist(), strict=True):
        out[int(unit[a])].append(Span(int(local[a]), int(token[a]), int(token[b]) + 1))
    return [tuple(runs) for runs in out]


def sizes(units: Units) -> list[list[int]]:
    """Sampled tokens of each step of each trajectory."""
    batch = units.batch
    size_S = np.bincount(batch.step_of_T[batch.sampled_T], minlength=len(batch.traj_of_S))
    return [part.tolist() for part in np.split(size_S, _first_step(units)[1:])]


def _first(units: Units) -> tuple[IntArray, IntArray]:
    """Step inside its trajectory, and sampled token inside that step, where each unit begins."""
    step_T, token_T = _inside(units)
    step_S, token_S = units.step_of_S.copy(), np.zeros(len(units), dtype=np.int64)
    own_T = np.flatnonzero(units.unit_of_T >= 0)[::-1]  # the first token of a unit is written last
    step_S[units.unit_of_T[own_T]] = step_T[own_T]
    token_S[units.unit_of_T[own_T]] = token_T[own_T]
    return step_S - _first_step(units)[units.traj_of_S], token_S


def _inside(units: Units) -> tuple[IntArray, IntArray]:
    """Step of the batch, and position among the sampled tokens of its step, of each token."""
    batch = units.batch
    before_T: IntArray = np.cumsum(batch.sampled_T) - batch.sampled_T
    first_T = np.searchsorted(batch.step_of_T, np.arange(len(batch.traj_of_S)))
    base_S = before_T[np.minimum(first_T, max(len(before_T) - 1, 0))] if len(before_T) else first_T
    return batch.step_of_T, before_T - base_S[batch.step_of_T]


def _first_step(units: Units) -> IntArray:
    return np.searchsorted(units.batch.traj_of_S, np.arange(len(units.group_of_N)))
