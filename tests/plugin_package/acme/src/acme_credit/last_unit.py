"""Last unit: the outcome, on the last unit alone.

    A[s] = R[i] if s is the last unit of i, else 0

Use       as an example; it sums to the outcome.
Source    none.
Compared  not.
Deviates  nowhere known.
"""

import numpy as np

from apportion import Credit, Units, register


@register("acme_late/last_unit", unit="step", family="example", reads=("reward_S",), source="none",
          holds=("scale_equivariant", "local_to_group", "local_to_trajectory", "sums_to_outcome"))  # fmt: skip
def last_unit(units: Units) -> Credit:
    """Credit the last unit of each trajectory with the outcome.

    Args:
        units: any units. Reads outcome_N, reward units.
    """
    return Credit(np.where(units.last_S, units.outcome_N[units.traj_of_S], 0.0), units)
