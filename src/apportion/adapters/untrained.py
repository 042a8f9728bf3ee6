"""A batch of which nothing is trained: its loss is 0, which in a trainer's log looks like convergence."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from apportion.credit import Credit, TokenAdvantages


@dataclass(slots=True, eq=False)
class Untrained:
    """Warns at the first such batch of a run; later ones are in the metric alone."""

    said: bool = False

    def look(self, credit: Credit, tokens: TokenAdvantages) -> None:
        """Warn, once, where no token of this batch reaches the loss."""
        if self.said or np.any(tokens.weight_T):
            return
        self.said = True
        warnings.warn(
            f"no token of a batch is trained (metric credit/share_of_tokens_trained): {_why(credit)}", stacklevel=3
        )


def _why(credit: Credit) -> str:
    units, method = credit.units, credit.method
    assert credit.known_S is not None
    if not units.valid_S.any():
        return "none of its rollouts was scored; see what the reward functions return"
    if credit.known_S.any():
        return f"{method!r} drops all of it"
    asks = credit.notes.get("asks", 0)
    if asks:
        return (
            f"{method!r} asked {asks} times and got nothing that it could use, so that the credit of every "
            f"{units.level} is unknown; a policy that is asked to go on needs a scorer that says what it reached"
        )
    return f"{method!r} knows the credit of no {units.level}"
