"""Units about which the method can say nothing."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, places
from apportion.check.registry import register
from apportion.credit import Credit

MANY = 0.5
"""Share of the units from which on it is a warning."""


@register("credit-unknown", on="credit", cheap=True)
def credit_unknown(credit: Credit) -> Yields:
    """Units without credit (not zero: unknown), which leave the loss."""
    unknown = np.flatnonzero(~np.asarray(credit.known_S, dtype=bool))
    if not len(unknown):
        return
    units = credit.units
    share = len(unknown) / len(units)
    trajectories = np.unique(units.traj_of_S[unknown])
    names = units.batch.names()
    yield Finding(
        "credit-unknown",
        "error" if share == 1 else "warning" if share >= MANY else "info",
        f"the credit of {len(unknown)} of {count(len(units), units.level)} in {count(len(trajectories), 'rollout')} "
        "is unknown; they leave numerator and denominator of the loss",
        "score them, or leave it: unknown is right for unscored, failed and empty rollouts",
        {"units": len(unknown), "of": len(units), "share": share, "rollouts": len(trajectories)},
        places(names[n] for n in trajectories),
    )
