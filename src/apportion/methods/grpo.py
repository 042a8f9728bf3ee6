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
          5. The variance has no least value; verl's vectorised form had one, equal to the epsilon, from
             verl-project/verl#3635 until #6348 took it away again under the same name (``floor``).
"""

import numpy as np

from apportion.credit import Credit
from apportion.methods.groups import LONE, VOTES, one_of, outcome_compared
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import FloatArray, seg_count, seg_std
from apportion.units import Units

SCALES = ("std", "none", "batch")


@register(
    "grpo",
    unit="episode",
    family="monte-carlo",
    reads=("reward_S",),
    source="arXiv:2402.03300",
    holds=("shift_invariant", "local_to_group", "zero_mean_per_group"),
    wide={"scale": ("batch",)},
)
def grpo(
    units: Units,
    *,
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
    floor: float = 0.0,
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
        floor: least variance, for parity: the std is sqrt(max(variance, floor)), and constant groups stay 0.
        votes: who has one in the statistics, each "trajectory" or each "row" (unit), for parity.
        group_of_one: what a lone vote gets, "zero" or its "raw" outcome, for parity.

    Returns:
        Credit with exact zeros for constant groups and groups of one, which are counted in the notes.
    """
    one_of("grpo", SCALES, scale=scale)
    one_of("grpo", VOTES, votes=votes)
    one_of("grpo", LONE, group_of_one=group_of_one)
    within = "std" if scale == "std" and not floor else "none"
    advantage_S = outcome_compared(
        units, scale=within, ddof=ddof, epsilon=epsilon, group_of_one=group_of_one, votes=votes
    )
    if scale == "batch" or (scale == "std" and floor):
        advantage_S = advantage_S / _divisor_S(units, scale, ddof, epsilon, floor, votes) + 0.0
    return Credit(advantage_S, units, notes=group_notes(units))


def _divisor_S(units: Units, scale: str, ddof: int, epsilon: float, floor: float, votes: str) -> FloatArray:
    """Std of the batch, or with a least variance of each unit's group; of a lone vote 1, inf where all are alike."""
    x_V, valid_V, set_V, set_S = units.outcome_N, units.valid_N, units.group_of_N, units.group_of_S
    if votes == "row":
        x_V, valid_V, set_V = x_V[units.traj_of_S], units.valid_S, set_S
    if scale == "batch":
        set_V, set_S = np.zeros_like(set_V), np.zeros_like(set_S)
    n = int(set_V.max()) + 1 if len(set_V) else 0
    std = seg_std(x_V, set_V, ddof=ddof, where=valid_V, n=n)
    divisor = np.where(std > 0, np.sqrt(np.maximum(std * std, floor)) + epsilon, np.inf)
    if scale == "std":
        divisor[seg_count(set_V, where=valid_V, n=n) == 1] = 1.0 + epsilon
    return divisor[set_S]
