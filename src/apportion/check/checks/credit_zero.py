"""Credit that says nothing."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count
from apportion.check.registry import register
from apportion.credit import Credit


@register("credit-zero", on="credit", cheap=True)
def credit_zero(credit: Credit) -> Yields:
    """Credit that is exactly 0 in every known unit."""
    known = int(np.count_nonzero(np.asarray(credit.known_S)))
    if not known or credit.advantage_S.any():
        return
    notes = {name: value for name, value in credit.notes.items() if name in ("groups_of_one", "constant_groups")}
    why = ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in notes.items())
    yield Finding(
        "credit-zero",
        "error",
        f"the credit of all {count(known, 'known unit')} is exactly 0, so training on it changes nothing"
        + (f" ({why})" if why else ""),
        "check the rollouts (`apportion check`): groups of one and constant groups are the usual reasons",
        {"units": known, "share": 1.0, **notes},
    )
