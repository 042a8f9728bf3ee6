"""Margin: each trajectory's outcome against the best of the others in its group.

    A[i] = R[i] - max_{j != i} R[j]

Use       as an example of a method in somebody else's package.
Source    none.
Compared  not.
Deviates  nowhere known.
"""

from dataclasses import replace

import numpy as np

from apportion import Credit, Units, register


@register("acme/margin", unit="episode", family="example", reads=("reward_S",), source="none",
          holds=("scale_equivariant", "shift_invariant", "local_to_group"))  # fmt: skip
def margin(units: Units, *, factor: float = 1.0) -> Credit:
    """Credit every unit of a trajectory with its distance from the best of the others.

    Args:
        units: any units of N trajectories. Reads outcome_N, reward units.
        factor: of the distance.
    """
    out_N = np.zeros(len(units.group_of_N))
    for group in np.unique(units.group_of_N):
        members = np.flatnonzero((units.group_of_N == group) & units.valid_N)
        for i in members:
            others = units.outcome_N[members[members != i]]
            out_N[i] = units.outcome_N[i] - others.max() if len(others) else 0.0
    return Credit(factor * out_N[units.traj_of_S], units)


@register("acme/sign", family="transform", kind="transform", source="none")
def sign(credit: Credit) -> Credit:
    """Keep the sign of every credit.

    Args:
        credit: of S units.
    """
    return replace(credit, advantage_S=np.sign(credit.advantage_S), parts={})
