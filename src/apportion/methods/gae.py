"""GAE: temporal-difference errors of a critic, summed with decay; λ trades bias for variance.

    d[s] = r[s] + gamma V[s+1] - V[s]         A[s] = d[s] + gamma lam A[s+1]

Use       with a critic whose values stand in the data; lam=1 is Monte Carlo with the critic as baseline.
Source    arXiv:1506.02438, eq. 16.
Compared  on recorded numbers, with verl `compute_gae_advantage_return` (before its whitening).
Deviates  1. No whitening inside: write ``gae | whiten``.
          2. A truncated trajectory bootstraps with final_value where the data have one; the others are
             treated as terminal and counted. Hosts treat all as terminal.
          3. Tokens that were not sampled are crossed; OpenRLHF takes each for a state of value 0, with a discount of
             its own (``observations="zero"``), and so did verl before verl-project/verl#2337, with whatever its critic
             said there, which the data do not hold. At gamma = lam = 1 all three agree.
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.bootstrap import advantages, final_values
from apportion.methods.registry import register
from apportion.numerics import FloatArray
from apportion.numerics import gae as recursion
from apportion.units import Units

OBSERVATIONS = ("cross", "zero")


@register(
    "gae",
    unit="token",
    family="value",
    reads=("reward_S", "value_S"),
    source="arXiv:1506.02438",
    holds=("scale_equivariant", "local_to_trajectory", "local_to_group"),
    chain=True,
)
def gae(units: Units, *, gamma: float = 1.0, lam: float = 0.95, observations: str = "cross") -> Credit:
    """Credit each unit with its generalised advantage.

    Args:
        units: S units, tokens as a rule. Reads reward_S and value_S (value before the unit), reward units.
        gamma: discount per unit; observations in between cost nothing.
        lam: 0 trusts the critic, 1 the sampled return.
        observations: between two sampled tokens, "cross" goes on as if they were neighbours; "zero" passes every other
            token as a state of value 0 (the cut is by_token).

    Returns:
        Credit in reward units.
    """
    assert units.value_S is not None
    if observations not in OBSERVATIONS:
        raise ConfigError(f"gae: observations is {observations!r}; give 'cross' or 'zero'")
    if observations == "cross":
        advantage_S, notes = advantages(units, units.value_S, gamma=gamma, lam=lam)
    elif units.level != "token":
        raise ConfigError(f"gae: observations='zero' is of tokens, the units are {units.level}s; cut with by_token")
    else:
        last, notes = final_values(units)
        advantage_S = _through_zeros(units, units.value_S, gamma=gamma, lam=lam, last=last)
    return Credit(advantage_S, units, notes=notes)


def _through_zeros(units: Units, value_S: FloatArray, *, gamma: float, lam: float, last: FloatArray) -> FloatArray:
    """The recursion over sampled tokens and those between them (X), each of the latter without reward and value."""
    own_T = np.flatnonzero(units.unit_of_T >= 0)
    place_S = np.empty(len(units), dtype=np.int64)
    place_S[units.unit_of_T[own_T]] = own_T
    follows_S = units.parent_S >= 0
    wide_S = np.where(follows_S, place_S - place_S[units.parent_S], 1)
    at_S = np.cumsum(wide_S) - 1
    reward_X, value_X = np.zeros((2, int(wide_S.sum())))
    reward_X[at_S], value_X[at_S] = units.reward_S, value_S
    traj_of_X = np.repeat(units.traj_of_S, wide_S)
    out: FloatArray = recursion(reward_X, value_X, traj_of_X, gamma=gamma, lam=lam, last_value=last)[at_S]
    return out
