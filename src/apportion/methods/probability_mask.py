"""Probability mask: train only on tokens that the policy was not sure of.

    M[t] = 1[ pi_old(y_t | s_t) < rho ]          loss = sum_t M[t] loss[t] / sum_t M[t]

Use       with segment credit (SPO): what a segment is credited for happened where it could have gone otherwise.
          On GSM8K the mask alone gave GRPO 7.9 points of SPO's 11, so report it apart from the credit.
Source    arXiv:2505.23564 (rho = 0.9).
Compared  by reading, with AIFrameResearch/SPO at b9fc6a2.
Deviates  1. One strict comparison everywhere. The code marks cutpoints and trains below rho, but zeroes credit only
             above it, so that a token at exactly rho has credit and no loss.
          2. A batch in which every token is sure has an empty mask; the code divides by zero there.
"""

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.methods.registry import register
from apportion.numerics import below_probability


@register(
    "probability_mask",
    unit="segment",
    family="transform",
    reads=("logp_S",),
    source="arXiv:2505.23564",
    holds=("scale_equivariant", "local_to_group", "local_to_trajectory"),
    kind="transform",
)
def probability_mask(credit: Credit, *, rho: float = 0.9) -> Credit:
    """Drop tokens whose probability is not below ``rho`` from the loss.

    Args:
        credit: of any units. Reads the log-probabilities of their tokens under the policy that sampled them.
        rho: threshold in (0, 1]; 1 drops only tokens of probability 1.

    Returns:
        The same credit with a mask of tokens (`Credit.train_T`); dropped tokens leave numerator and denominator.
    """
    counted_T = credit.to_tokens().weight_T > 0
    assert credit.units.batch.logp_T is not None
    train_T = counted_T & below_probability(credit.units.batch.logp_T, rho)
    dropped = int(np.count_nonzero(counted_T & ~train_T))
    return replace(credit, train_T=train_T, notes={**credit.notes, "tokens_too_sure": dropped})
