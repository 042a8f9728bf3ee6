"""Entropy bonus: a token gets more credit the more the policy hesitated there, never enough to turn its sign.

    A'[t] = A[t] + min(alpha H[t], |A[t]| / kappa)

Use       to keep exploration alive in long reasoning without an entropy term in the loss.
Source    arXiv:2506.14758 (entropy-based advantage shaping).
Compared  not: formula and constants were available from secondary notes only; treat the defaults as ours.
Deviates  1. H is that of the sampling policy in the data, a constant for the gradient.
"""

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.registry import numbered, register
from apportion.methods.tokenwise import on_tokens


@register(
    "entropy_bonus",
    unit="token",
    family="transform",
    reads=("entropy_S",),
    source="arXiv:2506.14758",
    holds=("local_to_trajectory", "local_to_group"),
    kind="transform",
)
def entropy_bonus(credit: Credit, *, alpha: float = 0.4, kappa: float = 2.0) -> Credit:
    """Add a clipped bonus for entropy to the credit of every token.

    Args:
        credit: of any units. Reads the entropies of their tokens, nats.
        alpha: credit per nat, at least 0. The source's settings are 0.4 with group credit and 0.1 with a critic.
        kappa: the bonus is at most the credit's magnitude divided by this, above 1.

    Returns:
        Credit of single tokens; the part "entropy" is the bonus. A credit of 0 stays 0.
    """
    if not alpha >= 0:
        raise ConfigError(f"entropy_bonus: alpha is {alpha}; give a number of at least 0")
    if not kappa > 1:
        raise ConfigError(f"entropy_bonus: kappa is {kappa}; give a number above 1, or the bonus could turn a sign")
    fine = on_tokens(credit)
    assert fine.units.entropy_S is not None
    bonus = np.minimum(alpha * fine.units.entropy_S, np.abs(fine.advantage_S) / kappa)
    parts = dict(fine.parts or {"credit": fine.advantage_S})
    parts[numbered("entropy", parts)] = bonus
    return replace(fine, advantage_S=fine.advantage_S + bonus, parts=parts)
