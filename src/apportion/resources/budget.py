"""What may be spent: reserved before a request goes out, settled when its answer is in, never exceeded."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from apportion.errors import BudgetError, ConfigError
from apportion.resources.protocol import Load

PARTIAL = ("refuse", "partial")


@dataclass(slots=True)
class Budget:
    """Limits of one run, over all that is asked in it; None = no limit.

    A request counts with its prompt tokens, with all tokens it could generate and with all calls it could take until
    its answer says how many they were, so the limits hold whatever comes back.

    Args:
        requests: calls of the other side, repeated ones included. tokens: prompt and generated tokens together.
        when_short: "refuse" asks nothing where not everything fits; "partial" asks what fits, in the order of the plan,
            and leaves the rest unknown.

    Attributes:
        used_requests, used_tokens: spent or reserved so far.
    """

    requests: int | None = None
    tokens: int | None = None
    when_short: str = "refuse"
    used_requests: int = 0
    used_tokens: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        for name, limit in (("requests", self.requests), ("tokens", self.tokens)):
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
                raise ConfigError(f"budget: {name} is {limit!r}; give a whole number from 0 on, or None for no limit")
        if self.when_short not in PARTIAL:
            raise ConfigError(f"budget: when_short is {self.when_short!r}; it takes {' or '.join(PARTIAL)}")

    def admit(self, loads: list[Load], who: str) -> int:
        """How many of these requests fit, counted from the first.

        Raises:
            BudgetError: not all do, and the budget is not a partial one.
        """
        requests, tokens, fits = self.used_requests, self.used_tokens, 0
        for load in loads:
            requests, tokens = requests + load.requests, tokens + load.prompt_tokens + load.most_generated
            if self._over(requests, tokens):
                break
            fits += 1
        if fits == len(loads):
            return fits
        if self.when_short == "partial":
            return fits
        need_requests = self.used_requests + sum(x.requests for x in loads)
        need_tokens = self.used_tokens + sum(x.prompt_tokens + x.most_generated for x in loads)
        short = [
            f"{need} {name} where the budget is {limit}"
            for name, need, limit in (
                ("requests", need_requests, self.requests),
                ("tokens", need_tokens, self.tokens),
            )
            if limit is not None and need > limit
        ]
        asked = "no more was asked" if self.used_requests else "nothing was asked"  # a later round
        raise BudgetError(
            f"{who} may need {' and '.join(short)}, so {asked}; raise the budget, ask for fewer samples or "
            "shorter ones, or let it ask what fits (--partial, in Python when_short='partial')"
        )

    def reserve(self, load: Load) -> bool:
        """Take one request out of the budget; False where it no longer fits."""
        with self._lock:
            requests = self.used_requests + load.requests
            tokens = self.used_tokens + load.prompt_tokens + load.most_generated
            if self._over(requests, tokens):
                return False
            self.used_requests, self.used_tokens = requests, tokens
            return True

    def settle(self, load: Load, prompt_tokens: int, generated_tokens: int, requests: int = 1) -> None:
        """Replace a reservation by what the answer took."""
        with self._lock:
            self.used_requests += requests - load.requests
            self.used_tokens += prompt_tokens + generated_tokens - load.prompt_tokens - load.most_generated

    def _over(self, requests: int, tokens: int) -> bool:
        return (self.requests is not None and requests > self.requests) or (
            self.tokens is not None and tokens > self.tokens
        )
