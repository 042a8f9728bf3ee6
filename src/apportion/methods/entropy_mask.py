"""Entropy mask: train only on the tokens (or units) where the policy hesitated most.

    M[t] = 1[ H[t] >= the (1 - share)-quantile of H over all counted tokens of the batch ]

Use       on long chains of thought, where a fifth of the tokens carries the decisions. Over units it is a cheap
          stand-in for CARL's gate when nothing forks. Never with `entropy_weight`, which damps what this keeps.
Source    arXiv:2506.01939 (the 80/20 rule); over units: our proxy, see `critical_only` for CARL itself.
Compared  by reading, with TRL's ``top_entropy_quantile``.
Deviates  1. Entropies are those of the sampling policy in the data, never recomputed and never differentiated.
          2. The quantile is over tokens that the loss counts, so unknown and dropped ones do not move it.
"""

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.registry import register


@register(
    "entropy_mask",
    unit="token",
    family="transform",
    reads=("entropy_S",),
    source="arXiv:2506.01939",
    holds=("scale_equivariant",),
    kind="transform",
)
def entropy_mask(credit: Credit, *, share: float = 0.2, over: str = "token") -> Credit:
    """Keep the share of highest entropy in the loss; the credit itself does not change.

    Args:
        credit: of any units of the *global* batch, not of one worker's part. Reads the entropies of their tokens.
        share: of the counted tokens (or units) to keep, in (0, 1]; equals at the threshold all stay.
        over: "token" masks tokens, "unit" drops whole units by their mean entropy; units without tokens do not vote.

    Returns:
        The same credit with a mask of tokens (`Credit.train_T`) or of units (`Credit.train_S`).
    """
    if over not in ("token", "unit"):
        raise ConfigError(f"entropy_mask: over is {over!r}; give 'token' or 'unit'")
    if not 0.0 < share <= 1.0:
        raise ConfigError(f"entropy_mask: share is {share!r}; give a share in (0, 1]")
    if over == "token":
        entropy, counted = credit.units.batch.entropy_T, credit.to_tokens().weight_T > 0
    else:
        entropy, counted = credit.units.entropy_S, credit.counted_S > 0
    assert entropy is not None
    floor = float(np.quantile(entropy[counted], 1.0 - share)) if counted.any() else 0.0
    keep = counted & (entropy >= floor)
    notes = {**credit.notes, "entropy_floor": floor, f"{over}s_too_certain": int(np.count_nonzero(counted & ~keep))}
    return replace(credit, train_T=keep, notes=notes) if over == "token" else replace(credit, train_S=keep, notes=notes)
