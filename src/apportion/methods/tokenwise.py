"""Credit on single tokens, for transforms whose factor differs from token to token."""

from __future__ import annotations

from apportion.credit import Credit
from apportion.units import by_token


def on_tokens(credit: Credit) -> Credit:
    """The same credit with one unit per sampled token; `Credit.to_tokens` gives the same numbers before and after."""
    return credit if credit.units.level == "token" else credit.refine(by_token(credit.units.batch))
