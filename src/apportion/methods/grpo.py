"""GRPO: each trajectory's outcome against the mean of its group, one number for all its units.

    A[i] = (R[i] - mean_group R) / std_group R          scale="std" (the paper)
    A[i] =  R[i] - mean_group R                         scale="none" (Dr. GRPO's credit)

Use       when groups of rollouts share a task; says nothing about which unit mattered.
Source    arXiv:2402.03300, eq. in section 4.1.2 (outcome supervision).
Compared  on recorded numbers, with verl `compute_grpo_outcome_advantage` and TRL `GRPOTrainer`.
Deviates  1. A trajectory counts once, however many rows or units it has; verl-agent counts rows (``votes``).
          2. No epsilon is added to the std; TRL adds 1e-4, verl 1e-6 (``epsilon`` reproduces them).
          3. A group of one gets 0 and is counted; verl returns its raw score (``group_of_one``).
          4. Unscored, empty and failed members leave the statistics and are unknown.
"""

import numpy as np

from apportion.credit import Credit
from apportion.methods.groups import LONE, VOTES, one_of, outcome_compared
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import seg_std
from apportion.units import Units

SCALES = ("std", "none", "batch")


@register(
    "grpo",
    unit="episode",
    family="monte-carlo",
    reads=("reward_S",),
    source="arXiv:2402.03300",
    holds=("shift_invariant", "local_to_group", "zero_mean_per_group"),
)
def grpo(
    units: Units,
    *,
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
    votes: str = "trajectory",
    group_of_one: str = "zero",
) -> Credit:
    """Credit every unit of a trajectory with the trajectory's place in its group.

    Args:
        units: any units of N trajectories. Reads outcome_N, reward units.
        scale: "std" divides by the group's std (no unit), "batch" by the std over all outcomes of the batch,
            "none" keeps reward units.
        ddof: of the std; 1 is the sample std that torch, TRL and verl use, 0 the population std.
        epsilon: added to the std, for parity with a host.
        votes: who has one in the statistics, each "trajectory" or each "row" (unit), for parity.
        group_of_one: what a lone vote gets, "zero" or its "raw" outcome, for parity.

    Returns:
        Credit with exact zeros for constant groups and groups of one, which are counted in the notes.
    """
    one_of("grpo", SCALES, scale=scale)
    one_of("grpo", VOTES, votes=votes)
    one_of("grpo", LONE, group_of_one=group_of_one)
    within = "std" if scale == "std" else "none"
    advantage_S = outcome_compared(
        units, scale=within, ddof=ddof, epsilon=epsilon, group_of_one=group_of_one, votes=votes
    )
    if scale == "batch":
        x_V, valid_V = units.outcome_N, units.valid_N
        if votes == "row":
            x_V, valid_V = x_V[units.traj_of_S], units.valid_S
        spread = seg_std(x_V, np.zeros(len(x_V), dtype=np.int64), ddof=ddof, where=valid_V, n=1)[0]
        advantage_S = advantage_S / (spread + epsilon) if spread > 0 else np.zeros_like(advantage_S)
    return Credit(advantage_S, units, notes=group_notes(units))
