"""Exact truth on an enumerable task: values, advantages and the policy gradient of any policy.

    V_t(s) = sum_a pi(a|s) Q_t(s,a)            Q_t(s,a) = E[r + gamma V_{t+1}(s')]            A = Q - V
    d_t(s) = probability of being in s after t steps, the game not over
    g*[s]  = sum_t gamma^t d_t(s) pi(.|s) * A_t(s,.)          gradient of J in the logits of pi(.|s)
    g[s]   = mean over trajectories of sum_t c_t (e_{a_t} - pi(.|s_t))        the same from credit c

Letters: H times (steps done), X states, K slots (one action of one state), S steps of N sampled
trajectories. A policy is one probability per slot: [K], or [H, K] where the text shows the clock.

Source    policy gradient theorem (Sutton et al. 2000) for finite horizons, tabular softmax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.bench.policy_rows import Scorer, flat, normalised, scored
from apportion.envs.table import Floats, Ints, Table, optimal_values
from apportion.errors import ConfigError, DataError

Policy = NDArray[Any] | Mapping[Any, ArrayLike] | Scorer


@dataclass(frozen=True, eq=False)
class Exact:
    """The truth about one policy on one task. NaN marks (time, state) pairs that cannot be reached.

    J             expected discounted return, in reward units
    policy        [K] or [H, K]
    value_HX      V, q_HK Q, advantage_HK A = Q - V, in reward units
    visit_HX      d, the probability of being there
    """

    table: Table
    gamma: float
    policy: Floats
    J: float
    value_HX: Floats
    q_HK: Floats
    advantage_HK: Floats
    visit_HX: Floats


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Sampled episodes as flat arrays; the steps of a trajectory follow each other.

    Per step: state, action (its position in the state's list), slot, time, reward, traj.
    Per trajectory: group (equal groups share the start state).
    """

    state_S: Ints
    action_S: Ints
    slot_S: Ints
    time_S: Ints
    reward_S: Floats
    traj_of_S: Ints
    group_of_N: Ints

    @property
    def group_of_S(self) -> Ints:
        """The group of each step."""
        return self.group_of_N[self.traj_of_S]

    @property
    def return_N(self) -> Floats:
        """The sum of rewards of each trajectory."""
        total_N = np.bincount(self.traj_of_S, weights=self.reward_S, minlength=len(self.group_of_N))
        return total_N.astype(np.float64)


def uniform(table: Table) -> Floats:
    """The policy that takes every action of a state equally often, [K]."""
    size_X = np.diff(table.first_slot_X)
    return np.asarray(1.0 / size_X[table.state_of_K], dtype=np.float64)


def probabilities(table: Table, policy: Policy) -> Floats:
    """A policy in any form as an array.

    Args:
        policy: an array [K] or [H, K]; a mapping from states to probability vectors; or a function of
            (texts, action lists) that returns one probability vector a text, such as a transformer. It
            is called once, with every distinct text.

    Returns:
        [K], or [H, K] if given so, or if a function scores texts that show the clock. Rows sum to 1.

    Raises:
        ConfigError: a state is missing, or a row has a wrong length, a negative or NaN entry, or another sum.
    """
    if isinstance(policy, np.ndarray):
        if policy.shape not in ((table.slots,), (table.horizon, table.slots)):
            raise ConfigError(
                f"exact: the policy has shape {policy.shape}; give ({table.slots},) for one probability per "
                f"slot, or ({table.horizon}, {table.slots}) for one per time and slot"
            )
        return normalised(table, policy)
    if isinstance(policy, Mapping):
        missing = next((x for x in table.states if x not in policy), None)
        if missing is not None:
            raise ConfigError(f"exact: the policy lacks the state {missing!r}; give all {len(table.states)}")
        return normalised(table, flat(table, range(len(table.states)), [policy[x] for x in table.states]))
    return scored(table, policy, uniform(table))


def exact(table: Table, policy: Policy, *, gamma: float = 1.0) -> Exact:
    """Evaluate a policy by backward and forward recursion.

    Args:
        gamma: discount per step, in [0, 1].
    """
    pi = probabilities(table, policy)
    pi_HK = np.broadcast_to(pi, (table.horizon, table.slots))
    value_HX = np.zeros((table.horizon, len(table.states)))
    q_HK = np.zeros((table.horizon, table.slots))
    after_X = np.zeros(len(table.states))
    for t in range(table.horizon - 1, -1, -1):
        q_HK[t] = table.look_ahead(after_X, gamma)
        value_HX[t] = after_X = table.sum_by_state(pi_HK[t] * q_HK[t])
    return _finish(table, gamma, pi, value_HX, q_HK)


def optimal(table: Table, *, gamma: float = 1.0) -> Exact:
    """The best policy, with its values; `policy` takes all actions of the largest Q equally often, [H, K]."""
    value_HX, q_HK = optimal_values(table, gamma)
    best_HK = (q_HK >= value_HX[:, table.state_of_K] - 1e-9).astype(np.float64)
    pi_HK = best_HK / table.sum_by_state(best_HK)[:, table.state_of_K]
    return _finish(table, gamma, pi_HK, value_HX, q_HK)


def policy_gradient(truth: Exact) -> Floats:
    """Exact gradient of J in the logits of the policy, in its shape, [K] or [H, K]."""
    table, pi = truth.table, truth.policy
    weight_HX = truth.visit_HX * truth.gamma ** np.arange(table.horizon)[:, None]
    advantage_HK = np.where(weight_HX[:, table.state_of_K] > 0, truth.advantage_HK, 0.0)
    gradient_HK = weight_HX[:, table.state_of_K] * np.broadcast_to(pi, advantage_HK.shape) * advantage_HK
    return gradient_HK if pi.ndim == 2 else np.asarray(gradient_HK.sum(axis=0), dtype=np.float64)


def batch_gradient(table: Table, policy: Policy, rollouts: Rollouts, credit_S: ArrayLike) -> Floats:
    """The gradient that this credit gives on this batch, in the shape of the policy.

    Args:
        credit_S: one number per step of the rollouts. For gamma below 1, weight it by gamma^t yourself
            where the gradient of the discounted return is wanted; most trainers do not.

    Raises:
        DataError: the credit has another length, or is not finite.
    """
    pi = probabilities(table, policy)
    credit = np.asarray(credit_S, dtype=np.float64)
    if credit.shape != rollouts.slot_S.shape or not np.isfinite(credit).all():
        raise DataError(
            f"batch_gradient: credit of shape {credit.shape} for {len(rollouts.slot_S)} steps; "
            f"give one finite number per step"
        )
    x, k = len(table.states), table.slots
    at = rollouts.time_S if pi.ndim == 2 else np.zeros_like(rollouts.time_S)
    rows = table.horizon if pi.ndim == 2 else 1
    taken = np.bincount(at * k + rollouts.slot_S, weights=credit, minlength=rows * k).reshape(rows, k)
    here = np.bincount(at * x + rollouts.state_S, weights=credit, minlength=rows * x).reshape(rows, x)
    gradient = (taken - here[:, table.state_of_K] * pi) / len(rollouts.group_of_N)
    return np.asarray(gradient if pi.ndim == 2 else gradient[0], dtype=np.float64)


def advantage_of(truth: Exact, rollouts: Rollouts) -> Floats:
    """The exact advantage of each sampled step [S]: the best credit there is."""
    return np.asarray(truth.advantage_HK[rollouts.time_S, rollouts.slot_S], dtype=np.float64)


def improve(table: Table, policy: Policy, beta: float) -> Floats:
    """A softmax policy of known strength: p proportional to policy * exp(beta * A*).

    A* = Q* - V* is the optimal advantage, at each time for a policy [H, K], else at the first time that
    the state can be reached. beta 0 changes nothing, a large one gives the optimum if the policy knows the
    time; in between, and for a policy [K], more beta is mostly but not always more return.
    """
    pi = probabilities(table, policy)
    value_HX, q_HK = optimal_values(table)
    regret_HK = q_HK - value_HX[:, table.state_of_K]
    first_X = table.reached_HX.argmax(axis=0)
    regret = regret_HK if pi.ndim == 2 else regret_HK[first_X[table.state_of_K], np.arange(table.slots)]
    weight = pi * np.exp(beta * (regret - table.max_by_state(regret)[..., table.state_of_K]))
    return np.asarray(weight / table.sum_by_state(weight)[..., table.state_of_K], dtype=np.float64)


def sample(table: Table, policy: Policy, *, groups: int, n: int, rng: np.random.Generator) -> Rollouts:
    """Draw `groups` start states and `n` independent episodes from each."""
    if groups < 1 or n < 1:
        raise ConfigError(f"sample: groups is {groups} and n is {n}; both must be 1 or more")
    pi_HK = np.broadcast_to(probabilities(table, policy), (table.horizon, table.slots))
    group_of_N = np.repeat(np.arange(groups), n)
    state = rng.choice(len(table.states), size=groups, p=table.start_X)[group_of_N]
    alive = np.arange(groups * n)
    columns: list[tuple[Ints, ...]] = []
    rewards: list[Floats] = []
    first_M = np.searchsorted(table.slot_of_M, np.arange(table.slots + 1))
    for t in range(table.horizon):
        slot = _draw(pi_HK[t], table.first_slot_X, state, rng)
        outcome = _draw(table.prob_M, first_M, slot, rng)
        columns.append((state, slot - table.first_slot_X[state], slot, np.full(len(alive), t), alive))
        rewards.append(table.reward_M[outcome])
        following = table.next_M[outcome]
        on = following < len(table.states)
        state, alive = following[on], alive[on]
        if not len(alive):
            break
    state_S, action_S, slot_S, time_S, traj_of_S = (
        np.concatenate(column).astype(np.int64) for column in zip(*columns, strict=True)
    )
    order = np.lexsort((time_S, traj_of_S))
    return Rollouts(
        state_S=state_S[order],
        action_S=action_S[order],
        slot_S=slot_S[order],
        time_S=time_S[order],
        reward_S=np.concatenate(rewards)[order],
        traj_of_S=traj_of_S[order],
        group_of_N=group_of_N,
    )


def cosine(a: ArrayLike, b: ArrayLike) -> float:
    """Cosine of two gradients of one shape; 0 where one of them is zero."""
    x, y = np.ravel(np.asarray(a, dtype=np.float64)), np.ravel(np.asarray(b, dtype=np.float64))
    length = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / length if length > 0 else 0.0


# within


def _finish(table: Table, gamma: float, pi: Floats, value_HX: Floats, q_HK: Floats) -> Exact:
    pi_HK = np.broadcast_to(pi, (table.horizon, table.slots))
    visit_HX = np.zeros((table.horizon, len(table.states) + 1))  # the last column: the game is over
    visit_HX[0, :-1] = table.start_X
    for t in range(table.horizon - 1):
        flow_M = (visit_HX[t][table.state_of_K] * pi_HK[t])[table.slot_of_M] * table.prob_M
        visit_HX[t + 1] = np.bincount(table.next_M, weights=flow_M, minlength=len(table.states) + 1)
    reached_HK = table.reached_HX[:, table.state_of_K]
    return Exact(
        table=table,
        gamma=gamma,
        policy=pi,
        J=float(table.start_X @ value_HX[0]),
        value_HX=np.where(table.reached_HX, value_HX, np.nan),
        q_HK=np.where(reached_HK, q_HK, np.nan),
        advantage_HK=np.where(reached_HK, q_HK - value_HX[:, table.state_of_K], np.nan),
        visit_HX=visit_HX[:, :-1],
    )


def _draw(prob: Floats, first: Ints, row: Ints, rng: np.random.Generator) -> Ints:
    """For each ragged row of probabilities, a position drawn from it, in the flat array."""
    total = np.append(0.0, np.cumsum(prob))
    low, high = total[first[row]], total[first[row + 1]]
    at = np.searchsorted(total, low + rng.random(len(row)) * (high - low), side="right") - 1
    at = np.clip(at, first[row], first[row + 1] - 1)  # rounding at the ends of a row
    return np.asarray(at, dtype=np.int64)
