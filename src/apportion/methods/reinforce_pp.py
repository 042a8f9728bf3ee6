"""REINFORCE++: returns to go, whitened over all sampled tokens of the batch; no critic and no group.

    A[s] = (G[s] - mean_batch G) / std_batch G          G[s] = sum_k gamma^k r[s+k]
    r[s] gets - kl_coef * KL[s]                         where kl_coef is not 0; KL[s] = logp[s] - ref_logp[s]
    baseline="group": the outcome minus its group's mean stands in for the rewards

Use       when there is one rollout per task; with several, ``baseline="group"`` has less variance.
Source    arXiv:2501.03262, sections 3.1-3.3. The whitening is the method, so here it is inside.
Compared  on recorded numbers, with verl `compute_reinforce_plus_plus_outcome_advantage` and its baseline form.
Deviates  1. Environment tokens are crossed; verl's scan reset the return there until verl-project/verl#7278
             (``observations="reset"``).
          2. No epsilon: verl adds 1e-8 to the variance (``epsilon``), OpenRLHF takes the population variance, at
             least 1e-8 (``ddof=0, floor=1e-8``), or none at all (``scale="none"``).
          3. ``baseline="group"`` gives a group of one 0 before whitening; verl keeps the raw
             outcome (``group_of_one``).
          4. The KL is k1; OpenRLHF and verl offer k2 and k3 as well (``kl``).
"""

from collections.abc import Callable

import numpy as np

from apportion.credit import Credit
from apportion.methods.groups import LONE, compared, one_of, return_to_go, whitened
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import FloatArray, IntArray, seg_sum
from apportion.units import Units

ESTIMATORS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "k1": lambda d: d,
    "k2": lambda d: d * d / 2,
    "k3": lambda d: np.exp(-d) + d - 1,
}


@register(
    "reinforce_pp",
    unit="token",
    family="monte-carlo",
    reads=("reward_S",),
    source="arXiv:2501.03262",
    chain=True,
    reads_with={"kl_coef": ("logp_S", "ref_logp_S")},
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
    kl: str = "k1",
    observations: str = "cross",
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
        epsilon: added to the variance.
        floor: the least variance.
        group_of_one: of ``baseline="group"``: "zero", or "raw" for a group of one's own outcome.
        kl: estimate of the divergence at each token: "k1" is d = logp - ref_logp, "k2" d²/2, "k3" exp(-d) + d - 1.
        observations: "cross" lets rewards behind an observation reach the tokens before it; "reset" does not, for
            parity with numbers from before the repair. Units that hold an observation inside are crossed.

    Returns:
        Credit with the parts "return" and "baseline".
    """
    one_of("reinforce_pp", ("none", "group"), baseline=baseline)
    one_of("reinforce_pp", ("std", "none"), scale=scale)
    one_of("reinforce_pp", LONE, group_of_one=group_of_one)
    one_of("reinforce_pp", tuple(ESTIMATORS), kl=kl)
    one_of("reinforce_pp", ("cross", "reset"), observations=observations)
    reward_S = units.reward_S
    if baseline == "group":
        outcome_N = compared(units.outcome_N, units.group_of_N, where=units.valid_N, group_of_one=group_of_one)
        reward_S = np.where(units.last_S, outcome_N[units.traj_of_S], 0.0)
    if kl_coef:
        units.require("reinforce_pp", "logp_S", "ref_logp_S")
        reward_S = reward_S - kl_coef * _divergence(units, kl)
    run_S = units.traj_of_S if observations == "cross" else _runs(units)
    return_S = return_to_go(reward_S, run_S, gamma=gamma)
    weight_S = np.where(units.valid_S, units.tokens_S, 0)
    advantage_S, mean, std = whitened(return_S, weight_S, scale=scale, ddof=ddof, epsilon=epsilon, floor=floor)
    spread = bool(advantage_S.any())
    if spread and not weight_S.all():  # a unit without tokens has no weight in the statistics, and still a place there
        advantage_S = np.where(units.valid_S, (return_S - mean) / std, 0.0)
    parts = {}
    if spread:
        parts = {"return": return_S / std, "baseline": np.full(len(units), -mean / std)}
    notes: dict[str, int | float | str] = {"normalised_over": "token"}
    if baseline == "group":
        notes |= group_notes(units)
    return Credit(advantage_S, units, parts=parts, notes=notes)


def _divergence(units: Units, kl: str) -> FloatArray:
    """Estimate of KL(policy || reference), summed over each unit's tokens, nats."""
    batch, own_T = units.batch, units.unit_of_T >= 0
    assert batch.logp_T is not None
    assert batch.ref_logp_T is not None
    d = batch.logp_T[own_T] - batch.ref_logp_T[own_T]
    return seg_sum(ESTIMATORS[kl](d), units.unit_of_T[own_T], n=len(units))


def _runs(units: Units) -> IntArray:
    """Number of the stretch without observation that each unit lies in."""
    own = np.flatnonzero(units.unit_of_T >= 0)
    unit, traj = units.unit_of_T[own], units.batch.traj_of_T[own]
    behind = (np.diff(own) > 1) & (unit[1:] != unit[:-1]) & (traj[1:] == traj[:-1])
    apart = np.append(False, behind)[: len(own)]
    begins_S = np.append(True, units.traj_of_S[1:] != units.traj_of_S[:-1])[: len(units)]
    begins_S[unit[apart]] = True
    runs: IntArray = np.cumsum(begins_S)
    return runs
