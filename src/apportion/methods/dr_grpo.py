"""Dr. GRPO: GRPO without the two divisions that bias it; this file is the half that is credit.

    A[i] = R[i] - mean_group R

Use       instead of GRPO when easy and hard tasks mix: the std would weigh both extremes up.
Source    arXiv:2503.20783, eq. 3. Its second half divides the loss by a constant length: pass
          ``aggregation="seq-mean-token-sum-norm"`` to the loss.
Compared  on recorded numbers, with verl (`norm_adv_by_std_in_grpo=False`) and TRL (`scale_rewards="none"`).
Deviates  as `grpo`, points 1, 3 and 4.
"""

from apportion.credit import Credit
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import centre
from apportion.units import Units


@register(
    "dr_grpo",
    unit="episode",
    family="monte-carlo",
    reads=("reward_S",),
    source="arXiv:2503.20783",
    holds=("scale_equivariant", "shift_invariant", "local_to_group", "zero_mean_per_group"),
)
def dr_grpo(units: Units) -> Credit:
    """Credit every unit of a trajectory with its outcome minus the group mean.

    Args:
        units: any units of N trajectories. Reads outcome_N, reward units.

    Returns:
        Credit in reward units.
    """
    advantage_N = centre(units.outcome_N, units.group_of_N, where=units.valid_N)
    return Credit(advantage_N[units.traj_of_S], units, notes=group_notes(units))
