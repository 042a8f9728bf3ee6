"""REINFORCE++: returns to go, whitened over all sampled tokens of the batch; no critic and no group.

    A[s] = (G[s] - mean_batch G) / std_batch G          G[s] = sum_k gamma^k r[s+k]
    r[s] gets - kl_coef * (logp[s] - ref_logp[s])       where kl_coef is not 0
    baseline="group": the outcome minus its group's mean stands in for the rewards

Use       when there is one rollout per task; with several, ``baseline="group"`` has less variance.
Source    arXiv:2501.03262, sections 3.1-3.3. The whitening is the method, so here it is inside.
Compared  on recorded numbers, with verl `compute_reinforce_plus_plus_outcome_advantage` and its baseline form.
Deviates  1. Environment tokens are crossed; verl's scan reset the return there (verl-project/verl#7278).
          2. No epsilon: verl adds 1e-8 to the variance (``epsilon``), OpenRLHF takes the population variance, at
             least 1e-8 (``ddof=0, floor=1e-8``), or none at all (``scale="none"``).
          3. ``baseline="group"`` gives a group of one 0 before whitening; verl keeps the raw
             outcome (``group_of_one``).
"""

import numpy as np

from apportion.credit import Credit
from apportion.methods.groups import LONE, compared, one_of, return_to_go, whitened
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.units import Units


@register(
    "reinforce_pp",
    unit="token",
    family="monte-carlo",
    reads=("reward_S",),
    source="arXiv:2501.03262",
    chain=True,
)
def reinforce_pp(
    units: Units,
    *,
    gamma: float = 1.0,
    kl_coef: float = 0.0,
    baseline: str = "none",
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
    floor: float = 0.0,
    group_of_one: str = "zero",
) -> Credit:
    """Credit each unit with its return to go, against the whole batch.

    Args:
        units: S units, tokens as in the paper; coarser units weigh in the statistics by their tokens. Reads reward_S,
            reward units, with kl_coef also logp_S and ref_logp_S, nats.
        gamma: discount per unit, in [0, 1].
        kl_coef: reward units per nat of log-ratio to the reference policy.
        baseline: "none" is REINFORCE++; "group" (REINFORCE++-baseline) subtracts the group mean from each outcome,
            which then arrives at the end.
        scale: "std" divides by the batch's std, "none" only subtracts the mean.
        ddof: of the variance.
        epsilon: added to the variance. floor: the least variance.
        group_of_one: of ``baseline="group"``: "zero", or "raw" for a group of one's own outcome.

    Returns:
        Credit with the parts "return" and "baseline".
    """
    one_of("reinforce_pp", ("none", "group"), baseline=baseline)
    one_of("reinforce_pp", ("std", "none"), scale=scale)
    one_of("reinforce_pp", LONE, group_of_one=group_of_one)
    reward_S = units.reward_S
    if baseline == "group":
        outcome_N = compared(units.outcome_N, units.group_of_N, where=units.valid_N, group_of_one=group_of_one)
        reward_S = np.where(units.last_S, outcome_N[units.traj_of_S], 0.0)
    if kl_coef:
        units.require("reinforce_pp", "logp_S", "ref_logp_S")
        assert units.logp_S is not None
        assert units.ref_logp_S is not None
        reward_S = reward_S - kl_coef * (units.logp_S - units.ref_logp_S)
    return_S = return_to_go(reward_S, units, gamma=gamma)
    weight_S = np.where(units.valid_S, units.tokens_S, 0)
    advantage_S, mean, std = whitened(return_S, weight_S, scale=scale, ddof=ddof, epsilon=epsilon, floor=floor)
    # a unit without tokens has no weight in the statistics, and still a place against them
    advantage_S = np.where(advantage_S.any() & units.valid_S, (return_S - mean) / std, 0.0)
    parts = {}
    if advantage_S.any():
        parts = {"return": return_S / std, "baseline": np.full(len(units), -mean / std)}
    notes: dict[str, int | float | str] = {"normalised_over": "token"}
    if baseline == "group":
        notes |= group_notes(units)
    return Credit(advantage_S, units, parts=parts, notes=notes)
