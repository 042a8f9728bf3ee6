"""Labels of a process reward model: what M(s, a) should be, as functions of a batch, so that costs can be compared.

    td_labels              Q^[t] = gamma ((1 - lam) M[t] + lam Q^[t+1]),   Q^[T] = R     from the rollouts alone
    method `agentprm_mc`   whether, or how often, one of K continuations succeeds        K continuations of every step

Source    AgentPRM (arXiv:2511.08325).
"""

from __future__ import annotations

import numpy as np

from apportion.errors import ConfigError
from apportion.numerics import Array, FloatArray
from apportion.units import Units


def td_labels(promise_S: Array, units: Units, *, gamma: float = 1.0, lam: float = 0.95) -> FloatArray:
    """Lambda-returns of a model's own values, (S,), reward units.

    M[t] stands for the value of the state that step t led to, which is the paper's assumption of transitions without
    chance and of rewards at the end.

    Args:
        promise_S: M of each step, reward units. units: steps of chains, in time order; their outcomes are R.
        gamma: discount per step, in [0, 1]. lam: 0 trusts the model, 1 the outcome.
    """
    for name, value in (("gamma", gamma), ("lam", lam)):
        if not 0 <= value <= 1:
            raise ConfigError(f"td_labels: {name} is {value!r}; give a number from 0 to 1")
    promise, last, out = np.asarray(promise_S, dtype=np.float64), units.last_S, np.zeros(len(units))
    for t in range(len(promise) - 1, -1, -1):
        if last[t]:
            out[t] = units.outcome_N[units.traj_of_S[t]]
        else:
            out[t] = gamma * ((1 - lam) * promise[t] + lam * out[t + 1])
    return out
