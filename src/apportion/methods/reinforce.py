"""REINFORCE: every unit gets the discounted rewards that come after it, without a baseline.

    A[s] = sum_k gamma^k r[s+k]          (inside the trajectory)

Use       as the unbiased yardstick; its variance is the reason for all other methods.
Source    Williams 1992; with per-token rewards as in arXiv:2501.03262.
Compared  on recorded numbers, with the returns of verl's REINFORCE++ on single-turn rows.
Deviates  1. Observations between two units cost no discount and do not reset the sum (verl-project/verl#7278 did).
"""

from apportion.credit import Credit
from apportion.methods.registry import register
from apportion.numerics import to_go
from apportion.units import Units


@register(
    "reinforce",
    unit="step",
    family="monte-carlo",
    reads=("reward_S",),
    source="Williams 1992",
    holds=("scale_equivariant", "local_to_trajectory", "local_to_group"),
    chain=True,
)
def reinforce(units: Units, *, gamma: float = 1.0) -> Credit:
    """Credit each unit with its return to go.

    Args:
        units: S units. Reads reward_S, reward units.
        gamma: discount per unit, in [0, 1].

    Returns:
        Credit in reward units.
    """
    return Credit(to_go(units.reward_S, units.traj_of_S, gamma=gamma), units)
