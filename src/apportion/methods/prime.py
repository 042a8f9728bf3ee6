"""PRIME: implicit token rewards and the outcome, each against the other rollouts, summed to the end.

    q[t] = beta log pi_prm / pi_ref      S[t] = q[t] - mean of the others' q      O = R_i - mean of the others' R
    A[t] = sum_{k >= t} gamma^(k-t) (w_p S[k] + w_o O at the last token)

Use       with a reward model that is trained online on outcomes; its log-probabilities stand in the column
          ``prm_logp``.
Source    arXiv:2502.01456.
Compared  by reading, with PRIME-RL/PRIME at 18ad596 and `recipe/prime` of verl.
Deviates  1. No whitening inside: write ``prime | whiten``.
          2. ``baseline="exact"`` leaves the rollout itself out. The code multiplies each token by n / (n - 1) and keeps
             the rollout's own mean in the sum: ``baseline="code"``.
          3. The code of verl leaves the last token's q at 0: ``last_token="zero"``.
          4. PRIME's own code uses the bare log-ratio (``beta=1``); verl and its children multiply by 0.05.
          5. A group of one gets 0; the code divides by zero.
"""

import numpy as np

from apportion.credit import Credit
from apportion.methods.notes import group_notes
from apportion.methods.process_reward import largest_return, less_the_others, one_of
from apportion.methods.registry import register
from apportion.numerics import centre, to_go
from apportion.units import Units


@register(
    "prime",
    unit="token",
    family="log-ratio",
    reads=("reward_S", "column:prm_logp", "ref_logp_S"),
    source="arXiv:2502.01456",
    holds=("shift_invariant", "local_to_group"),
    chain=True,
    wide={"normalise": ("batch",)},
)
def prime(
    units: Units,
    *,
    beta: float = 0.05,
    process_weight: float = 5.0,
    outcome_weight: float = 5.0,
    gamma: float = 1.0,
    baseline: str = "exact",
    last_token: str = "keep",
    normalise: str = "none",
    epsilon: float = 1e-6,
) -> Credit:
    """Credit every unit with the process rewards and the outcome that follow it.

    Args:
        units: S units, tokens as a rule. Reads outcome_N (reward units), the column prm_logp and ref_logp_S (nats).
        beta: reward per nat of the implicit model.
        process_weight: w_p above.
        outcome_weight: w_o above.
        gamma: discount per unit.
        baseline: "exact" or "code", see the module.
        last_token: "keep" or "zero": whether the last unit of a trajectory has a process reward.
        normalise: "batch" divides q by its largest sum to the end over the batch plus ``epsilon``; "none" does not.
        epsilon: see ``normalise``; read there only.

    Returns:
        Credit with the parts "process" and "outcome".
    """
    one_of("prime", "baseline", baseline, ("exact", "code"))
    one_of("prime", "last_token", last_token, ("keep", "zero"))
    one_of("prime", "normalise", normalise, ("none", "batch"))
    assert units.ref_logp_S is not None
    q_S = beta * (units.columns["prm_logp"] - units.ref_logp_S)
    if last_token == "zero":
        q_S = np.where(units.last_S, 0.0, q_S)
    if normalise == "batch":
        q_S = q_S / (largest_return(q_S, units) + epsilon)
    process_S = less_the_others(q_S, units, baseline)
    outcome_N = centre(units.outcome_N, units.group_of_N, where=units.valid_N, leave_one_out=True)
    outcome_S = np.where(units.last_S, outcome_N[units.traj_of_S], 0.0)
    parts = {
        "process": process_weight * to_go(process_S, units.traj_of_S, gamma=gamma),
        "outcome": outcome_weight * to_go(outcome_S, units.traj_of_S, gamma=gamma),
    }
    return Credit(parts["process"] + parts["outcome"], units, parts=parts, notes=group_notes(units))
