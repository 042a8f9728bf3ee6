"""OPO: each outcome against the length-weighted mean of its group.

    A[i] = R[i] - B          B = sum_i L[i] R[i] / sum_i L[i]          L = sampled tokens of a trajectory

Use       where long and short answers mix: under the assumption that a gradient's squared length grows with the number
          of tokens, this constant has the least variance.
Source    arXiv:2505.23585, eq. 9.
Compared  on recorded numbers, with verl `compute_opo_outcome_advantage`.
Deviates  1. A group of one gets 0; verl's loop keeps the raw outcome (``group_of_one="raw"``).
          2. Unscored, empty and failed members leave the statistics and are unknown.
"""

import numpy as np

from apportion.credit import Credit
from apportion.methods.groups import LONE, one_of
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import centre, seg_count, seg_sum
from apportion.units import Units


@register(
    "opo",
    unit="episode",
    family="monte-carlo",
    reads=("reward_S",),
    source="arXiv:2505.23585",
    holds=("scale_equivariant", "shift_invariant", "local_to_group"),
)
def opo(units: Units, *, group_of_one: str = "zero") -> Credit:
    """Credit every unit of a trajectory with its outcome minus a length-weighted baseline.

    Args:
        units: any units of N trajectories. Reads outcome_N, reward units.
        group_of_one: "zero", or "raw" for a group of one's own outcome.

    Returns:
        Credit in reward units.
    """
    one_of("opo", LONE, group_of_one=group_of_one)
    group_N, valid_N, n = units.group_of_N, units.valid_N, len(units.group_of_N)
    tokens_N = seg_sum(units.tokens_S, units.traj_of_S, n=n)
    # centred first, so that equal outcomes give exact zeros
    advantage_N = centre(units.outcome_N, group_N, where=valid_N)
    total_G = seg_sum(tokens_N, group_N, where=valid_N)
    shift_G = seg_sum(tokens_N * advantage_N, group_N, where=valid_N) / np.maximum(total_G, 1)
    advantage_N = np.where(valid_N, advantage_N - shift_G[group_N], 0.0)
    alone_N = valid_N & (seg_count(group_N, where=valid_N)[group_N] == 1)
    advantage_N[alone_N] = units.outcome_N[alone_N] if group_of_one == "raw" else 0.0
    return Credit(advantage_N[units.traj_of_S], units, notes=group_notes(units))
