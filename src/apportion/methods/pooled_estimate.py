"""The arithmetic of `pooled` for given settings: values by company and memory, and the λ-return over them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from apportion.methods.groups import position_S
from apportion.numerics import BoolArray, FloatArray, IntArray, labels, to_go
from apportion.units import Units


@dataclass(frozen=True, eq=False)
class View:
    """The units of scored trajectories, as far as values need them; the units of each stand in time order.

    Attributes:
        traj_S, position_S, group_S: trajectory, place in it, group. action_S, state_S: labels.
        reward_S: with the value after a cut-off end, where the data have one. return_S: discounted, to go.
        prior_S: mean return of the other trajectories of the group; NaN where there is none.
    """

    traj_S: IntArray
    position_S: IntArray
    group_S: IntArray
    reward_S: FloatArray
    return_S: FloatArray
    prior_S: FloatArray
    gamma: float

    def part(self, keep_S: BoolArray) -> View:
        """Some trajectories, whole, among themselves."""
        few = replace(
            self,
            traj_S=self.traj_S[keep_S],
            position_S=self.position_S[keep_S],
            group_S=self.group_S[keep_S],
            reward_S=self.reward_S[keep_S],
            return_S=self.return_S[keep_S],
        )
        return replace(few, prior_S=priors(few.return_S, few.traj_S, few.position_S, few.group_S))


@dataclass(frozen=True, eq=False)
class Seen:
    """What other trajectories and earlier batches say of the state of each unit: number of returns, and their sum."""

    count_S: FloatArray
    total_S: FloatArray

    def __add__(self, other: Seen) -> Seen:
        return Seen(self.count_S + other.count_S, self.total_S + other.total_S)


def view_of(units: Units, gamma: float) -> tuple[View, IntArray]:
    """The scored units, and where they stand among all."""
    at = np.flatnonzero(units.valid_S)
    reward = np.asarray(units.reward_S, dtype=np.float64).copy()
    cut_off = units.last_S & (units.truncated_N & np.isfinite(units.final_value_N))[units.traj_of_S]
    reward[cut_off] += gamma * units.final_value_N[units.traj_of_S[cut_off]]
    traj, position = units.traj_of_S[at], position_S(units)[at]
    group, returns = units.group_of_S[at], to_go(reward[at], traj, gamma=gamma)
    prior = priors(returns, traj, position, group)
    return View(traj, position, group, reward[at], returns, prior, gamma), at


def priors(return_S: FloatArray, traj_S: IntArray, position_S: IntArray, group_S: IntArray) -> FloatArray:
    """RLOO's baseline: the mean return of the other trajectories of the group, from their first unit; NaN if none."""
    first = np.flatnonzero(position_S == 0)
    n = int(group_S.max(initial=-1)) + 1
    many = np.bincount(group_S[first], minlength=n)
    total = np.bincount(group_S[first], weights=return_S[first], minlength=n)
    own = return_S[first][np.searchsorted(traj_S[first], traj_S)]
    others = many[group_S] - 1
    return np.where(others > 0, (total[group_S] - own) / np.maximum(others, 1), np.nan)


def company(view: View, key_S: IntArray) -> Seen:
    """Visits of the other trajectories to the state of each unit, and the sum of their returns to go."""
    own_S = labels(key_S, view.traj_S)
    count, total = np.bincount(key_S), np.bincount(key_S, weights=view.return_S)
    own_count, own_total = np.bincount(own_S), np.bincount(own_S, weights=view.return_S)
    visits = (count[key_S] - own_count[own_S]).astype(np.float64)
    return Seen(visits, np.where(visits > 0, total[key_S] - own_total[own_S], 0.0))


def values(view: View, seen: Seen, shrinkage: float | FloatArray) -> FloatArray:
    """V of the state of each unit; NaN where there is neither company, nor memory, nor a group.

    The units are the last axis: ``seen`` (settings, units) with ``shrinkage`` (settings, 1) gives one row per setting.
    """
    prior = np.nan_to_num(view.prior_S)
    weight = np.where(np.isnan(view.prior_S), 0.0, shrinkage)
    count = seen.count_S + weight
    value = (seen.total_S + weight * prior) / np.where(count > 0, count, 1.0)
    return np.where(seen.count_S > 0, value, view.prior_S)


def lambda_return(
    view: View, seen: Seen, value_S: FloatArray, shrinkage: float | FloatArray, lam: float | FloatArray
) -> FloatArray:
    """The advantage of each unit; 0 where there is nothing to compare it with. Settings in rows as in `values`.

    d[t] = r[t] + γ V[t+1] - V[t]      A[t] = d[t] + γ l[t+1] A[t+1]      l = 1 - (1 - λ) n / (n + κ)
    """
    trace = 1.0 - (1.0 - lam) * seen.count_S / np.maximum(seen.count_S + shrinkage, 1e-300)
    trace = np.where(np.isnan(value_S), 1.0, trace)
    value = np.nan_to_num(value_S)
    out = np.zeros(value.shape)
    last = np.append(view.traj_S[1:] != view.traj_S[:-1], True)[: value.shape[-1]]
    # what follows a unit: bootstrapped with the value of the next state, or with its return
    for t in range(int(view.position_S.max(initial=-1)), -1, -1):
        here = np.flatnonzero(view.position_S == t)
        on = here[~last[here]]
        out[..., here] = view.reward_S[here]
        after, weight = on + 1, trace[..., on + 1]
        out[..., on] += view.gamma * ((1.0 - weight) * value[..., after] + weight * out[..., after])
    return np.where(np.isnan(value_S), 0.0, out - value)
