"""RLOO: each trajectory's outcome against the mean of the *other* members of its group.

    A[i] = R[i] - mean_{j != i} R[j]  =  n / (n - 1) * (R[i] - mean_group R)

Use       for an unbiased baseline with small groups; equals Dr. GRPO times n / (n - 1).
Source    arXiv:2402.14740, section 3.
Compared  on recorded numbers, with verl `compute_rloo_outcome_advantage` (vectorised form).
Deviates  1. A group of one gets 0; verl's loop form returns the raw score (``group_of_one="raw"``).
          2. No KL term in the reward; add it to the rewards if you want TRL's form.
          Otherwise as `grpo`, points 1 and 4.
"""

from apportion.credit import Credit
from apportion.methods.groups import LONE, compared, one_of
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.units import Units


@register(
    "rloo",
    unit="episode",
    family="monte-carlo",
    reads=("reward_S",),
    source="arXiv:2402.14740",
    holds=("scale_equivariant", "shift_invariant", "local_to_group", "zero_mean_per_group"),
)
def rloo(units: Units, *, group_of_one: str = "zero") -> Credit:
    """Credit every unit of a trajectory with its outcome minus the mean of the others.

    Args:
        units: any units of N trajectories. Reads outcome_N, reward units.
        group_of_one: what a lone member gets, "zero" or its "raw" outcome, for parity.

    Returns:
        Credit in reward units.
    """
    one_of("rloo", LONE, group_of_one=group_of_one)
    advantage_N = compared(
        units.outcome_N, units.group_of_N, where=units.valid_N, group_of_one=group_of_one, leave_one_out=True
    )
    return Credit(advantage_N[units.traj_of_S], units, notes=group_notes(units))
