"""Surprisal weight: tokens that were less expected than their rollout's average carry more of its credit.

    A'[t] = A[t] max(0, 1 + beta (s[t] / mean s - 1))          s[t] = -log pi(y_t), mean over the trajectory

Use       where only the log-probability of the sampled token is logged; it is a noisy stand-in for entropy.
Source    teilomillet/retrain, `retrain/advantages/credit.py` (a trainer, no paper).
Compared  by reading, with that file.
Deviates  1. A trajectory whose tokens all had probability 1 keeps its credit; s / mean s is undefined there.
"""

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.methods.registry import register
from apportion.methods.tokenwise import on_tokens
from apportion.numerics import seg_mean


@register(
    "surprisal_weight",
    unit="token",
    family="transform",
    reads=("logp_S",),
    source="teilomillet/retrain",
    holds=("scale_equivariant", "local_to_trajectory", "local_to_group"),
    kind="transform",
)
def surprisal_weight(credit: Credit, *, beta: float = 0.1) -> Credit:
    """Weigh the credit of every token by its relative surprisal.

    Args:
        credit: of any units. Reads the log-probabilities of their tokens, nats.
        beta: 0 changes nothing; 1 makes the credit proportional to the surprisal.

    Returns:
        Credit of single tokens, parts weighted alike. For beta up to 1 a trajectory's mean weight is 1.
    """
    fine = on_tokens(credit)
    units = fine.units
    assert units.logp_S is not None
    mean_S = seg_mean(-units.logp_S, units.traj_of_S, n=len(units.group_of_N))[units.traj_of_S]
    relative = np.divide(-units.logp_S, mean_S, out=np.ones(len(units)), where=mean_S > 0)
    factor = np.maximum(0.0, 1.0 + beta * (relative - 1.0))
    parts = {name: part * factor for name, part in fine.parts.items()}
    return replace(fine, advantage_S=fine.advantage_S * factor, parts=parts)
