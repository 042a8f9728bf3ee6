"""GAE: temporal-difference errors of a critic, summed with decay; λ trades bias for variance.

    d[s] = r[s] + gamma V[s+1] - V[s]         A[s] = d[s] + gamma lam A[s+1]

Use       with a critic whose values stand in the data; lam=1 is Monte Carlo with the critic as baseline.
Source    arXiv:1506.02438, eq. 16.
Compared  on recorded numbers, with verl `compute_gae_advantage_return` (before its whitening).
Deviates  1. No whitening inside: write ``gae | whiten``.
          2. A truncated trajectory bootstraps with final_value where the data have one; the others are
             treated as terminal and counted. Hosts treat all as terminal.
"""

from apportion.credit import Credit
from apportion.methods.bootstrap import advantages
from apportion.methods.registry import register
from apportion.units import Units


@register(
    "gae",
    unit="token",
    family="value",
    reads=("reward_S", "value_S"),
    source="arXiv:1506.02438",
    holds=("scale_equivariant", "local_to_trajectory", "local_to_group"),
    chain=True,
)
def gae(units: Units, *, gamma: float = 1.0, lam: float = 0.95) -> Credit:
    """Credit each unit with its generalised advantage.

    Args:
        units: S units, tokens as a rule. Reads reward_S and value_S (value before the unit), reward units.
        gamma: discount per unit; observations in between cost nothing.
        lam: 0 trusts the critic, 1 the sampled return.

    Returns:
        Credit in reward units.
    """
    assert units.value_S is not None
    advantage_S, notes = advantages(units, units.value_S, gamma=gamma, lam=lam)
    return Credit(advantage_S, units, notes=notes)
