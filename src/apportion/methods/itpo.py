"""ITPO: implicit turn rewards, as they are or as shares of the outcome, against the other rollouts, summed to the end.

    S[k] = beta sum_{t in turn k} log pi_prm / pi_ref
    r[k] = S[k]                                        form="sum"  (ITPO)
    r[k] = softmax_k(S / temperature) R                form="norm" (Norm-ITPO)
    A[k] = sum_{j >= k} w_p (r[j] - mean of the others' r) + w_o (R_i - mean of the others' R)

Use       for dialogues with a simulated user, with a reward model that is trained online on outcomes; its
          log-probabilities stand in the column ``prm_logp``.
Source    arXiv:2603.23550.
Compared  by reading, with Graph-COM/ITPO at b1245e8, `recipe/itpo/itpo_core_algos.py`.
Deviates  1. No whitening inside: write ``itpo | whiten``.
          2. The repository's shares come from mean token scores times the batch's mean turn length, at temperature
             0.4 in its scripts and 0.7 in its function: ``shares="mean"``. The paper's turn sums are the default.
          3. The baseline leaves the rollout itself out; the code's keeps it in: ``baseline="code"``, see `prime`.
          4. Turns without tokens get no share.
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.notes import group_notes
from apportion.methods.process_reward import less_the_others, one_of
from apportion.methods.registry import register
from apportion.numerics import FloatArray, centre, seg_sum, to_go
from apportion.units import Units


@register(
    "itpo",
    unit="turn",
    units=("turn", "step"),
    family="log-ratio",
    reads=("reward_S", "column:prm_logp", "ref_logp_S"),
    source="arXiv:2603.23550",
    holds=("shift_invariant", "local_to_group"),
    chain=True,
)
def itpo(
    units: Units,
    *,
    form: str = "sum",
    beta: float | None = None,
    shares: str = "sum",
    temperature: float = 0.4,
    process_weight: float = 5.0,
    outcome_weight: float | None = None,
    baseline: str = "exact",
) -> Credit:
    """Credit every turn with the turn rewards from it on, and the outcome.

    Args:
        units: S turns or steps. Reads outcome_N (reward units), the column prm_logp and ref_logp_S (nats).
        form: "sum" or "norm", see the module.
        beta: reward per nat of the implicit model; None = 0.05 for "sum", 0.01 for "norm", as in the scripts.
        shares: what the softmax of "norm" is over: "sum" per turn, "mean" per token times the batch's mean turn length,
            or "length", shares in proportion to the number of tokens, without a softmax.
        temperature: of that softmax; at the usual betas the shares are nearly equal.
        process_weight: w_p above.
        outcome_weight: w_o above; None = 5 for "sum" and 0 for "norm", which holds R already.
        baseline: "exact" or "code".

    Returns:
        Credit with the parts "process" and "outcome".
    """
    one_of("itpo", "form", form, ("sum", "norm"))
    one_of("itpo", "shares", shares, ("sum", "mean", "length"))
    one_of("itpo", "baseline", baseline, ("exact", "code"))
    if not temperature > 0:
        raise ConfigError(f"itpo: temperature is {temperature}; give a number above 0")
    assert units.ref_logp_S is not None
    norm = form == "norm"
    scale = (0.01 if norm else 0.05) if beta is None else beta
    reward_S = scale * (units.columns["prm_logp"] - units.ref_logp_S)
    if norm:
        reward_S = _shares(reward_S, units, shares, temperature) * units.outcome_N[units.traj_of_S]
    process_S = less_the_others(reward_S, units, baseline)
    weight = (0.0 if norm else 5.0) if outcome_weight is None else outcome_weight
    outcome_N = centre(units.outcome_N, units.group_of_N, where=units.valid_N, leave_one_out=True)
    parts = {
        "process": process_weight * to_go(process_S, units.traj_of_S),
        "outcome": weight * outcome_N[units.traj_of_S],
    }
    return Credit(parts["process"] + parts["outcome"], units, parts=parts, notes=group_notes(units))


def _shares(score_S: FloatArray, units: Units, by: str, temperature: float) -> FloatArray:
    """Shares of the turns with tokens, adding up to 1 in each trajectory."""
    n, speaks_S = len(units.group_of_N), units.tokens_S > 0
    if by == "length":
        weight_S = units.tokens_S.astype(np.float64)
    else:
        logit_S = score_S / temperature
        if by == "mean":
            vote_S = speaks_S & units.valid_S
            mean_length = float(units.tokens_S[vote_S].mean()) if vote_S.any() else 0.0
            logit_S = logit_S / np.maximum(units.tokens_S, 1) * mean_length
        largest_N = np.full(n, -np.inf)
        np.maximum.at(largest_N, units.traj_of_S[speaks_S], logit_S[speaks_S])
        weight_S = np.zeros(len(units))
        weight_S[speaks_S] = np.exp(logit_S[speaks_S] - largest_N[units.traj_of_S[speaks_S]])
    total_S = seg_sum(weight_S, units.traj_of_S, n=n)[units.traj_of_S]
    return np.divide(weight_S, total_S, out=np.zeros(len(units)), where=total_S > 0)
