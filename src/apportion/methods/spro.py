"""SPRO: the policy's own log-ratio as process reward, compared in the group at the same step.

    C[i,t] = sum_{j <= t} beta log pi / pi_ref          M[i,t] = C[i,t] - mean_{members that have a step t} C
    A[i,t] = (R_i - mean R) / std R + w M[i,t]

Use       when nothing but the rollouts and reference log-probabilities is at hand.
Source    arXiv:2507.01551.
Compared  not: no official code was found; reviews and independent implementations agree on the formula.
Deviates  1. beta is not told; 0.05 is the habit of the PRIME family.
          2. Others weigh the process part by 0.1 and clip it at 5: ``process_weight``, ``limit``.
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.notes import group_notes
from apportion.methods.process_reward import from_start, one_of
from apportion.methods.registry import register
from apportion.numerics import centre, labels, starts_of
from apportion.units import Units


@register(
    "spro",
    unit="token",
    family="log-ratio",
    reads=("reward_S", "logp_S", "ref_logp_S"),
    source="arXiv:2507.01551",
    holds=("shift_invariant", "local_to_group"),
    chain=True,
)
def spro(
    units: Units,
    *,
    beta: float = 0.05,
    process_weight: float = 1.0,
    limit: float | None = None,
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
) -> Credit:
    """Credit every unit with its trajectory's place in the group and its own place among the t-th units.

    Args:
        units: S units, tokens as in the paper. Reads outcome_N (reward units), logp_S and ref_logp_S (nats).
        beta: weight of the log-ratio; where the policy still is its reference the process part is 0.
        process_weight: w above.
        limit: the process part is cut off at this magnitude, before the weight; None = nowhere.
        scale: of the outcome part, "std" or "none", see `grpo`.
        ddof: of its std.
        epsilon: added to that std.

    Returns:
        Credit with the parts "outcome" and "process". A unit that no other member reached has process part 0.
    """
    one_of("spro", "scale", scale, ("std", "none"))
    if limit is not None and not limit > 0:
        raise ConfigError(f"spro: limit is {limit}; give a number above 0, or None")
    assert units.logp_S is not None
    assert units.ref_logp_S is not None
    first_S = np.repeat(starts_of(units.traj_of_S), np.diff(np.append(starts_of(units.traj_of_S), len(units))))
    place_S = labels(units.group_of_S, np.arange(len(units)) - first_S)
    so_far_S = from_start(beta * (units.logp_S - units.ref_logp_S), units)
    process_S = centre(so_far_S, place_S, where=units.valid_S)
    if limit is not None:
        process_S = np.clip(process_S, -limit, limit)
    outcome_N = centre(units.outcome_N, units.group_of_N, scale=scale, ddof=ddof, epsilon=epsilon, where=units.valid_N)
    parts = {"outcome": outcome_N[units.traj_of_S], "process": process_weight * process_S}
    return Credit(parts["outcome"] + parts["process"], units, parts=parts, notes=group_notes(units))
