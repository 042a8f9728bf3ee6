"""Credit that sits in one rollout."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields
from apportion.check.registry import register
from apportion.credit import Credit
from apportion.numerics import seg_sum

LEAST, MOST = 8, 0.5
"""From 8 rollouts on, one should not hold half of the credit."""


@register("credit-concentrated", on="credit", cheap=True)
def credit_concentrated(credit: Credit) -> Yields:
    """One rollout that holds most of the credit mass (absolute credit times tokens), as a length bias makes it."""
    units = credit.units
    weighed = np.abs(credit.advantage_S) * units.tokens_S * credit.weight_S
    mass_N = seg_sum(weighed, units.traj_of_S, n=len(units.group_of_N))
    rollouts = int(np.count_nonzero(units.valid_N))
    if rollouts < LEAST or not mass_N.any():
        return
    top = int(mass_N.argmax())
    share = float(mass_N[top] / mass_N.sum())
    if share <= MOST:
        return
    tokens_N = seg_sum(units.tokens_S.astype(np.float64), units.traj_of_S, n=len(mass_N))
    name = units.batch.names()[top]
    yield Finding(
        "credit-concentrated",
        "warning",
        f"the rollout {name!r} holds {share:.0%} of the credit mass of {rollouts} rollouts, "
        f"with {tokens_N[top] / tokens_N.sum():.0%} of the tokens: the update is about this one",
        "look at its reward and length; clip the credit, or use a loss that counts rollouts and not tokens",
        {
            "share": share,
            "of": rollouts,
            "tokens_share": float(tokens_N[top] / tokens_N.sum()),
            "largest": float(np.abs(credit.advantage_S).max()),
        },
        (name,),
    )
