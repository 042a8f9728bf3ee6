"""A resource whose answers are at hand: a function, an enumerable task, or values that were computed before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from apportion.asks import KINDS
from apportion.errors import ConfigError
from apportion.resources.base import BaseResource
from apportion.resources.protocol import Load, Refusal, Reply, Request, Trouble


class Table(BaseResource):
    """Answers by a plain function.

    Args:
        function: a `Request` in, the sample out (see `apportion.asks.Answer` for its type by kind of ask), or a `Reply`
            where it cost tokens; raises `Trouble` or `Refusal`. Randomness must come from ``request.seed``.
        kinds: kinds of ask that it answers, names of `apportion.asks.KINDS`.
        identity: of what it answers with, part of the cache's keys; change it when the answers change.
        workers: calls at a time.

    Attributes:
        calls: requests that it was asked, failures included.
    """

    def __init__(
        self,
        function: Callable[[Request], Any],
        *,
        kinds: Iterable[str],
        identity: str,
        name: str = "table",
        workers: int = 1,
    ) -> None:
        self.kinds = frozenset(kinds)
        if unknown := self.kinds - set(KINDS.values()):
            raise ConfigError(f"table: no kind of ask is named {min(unknown)!r}; there are {', '.join(KINDS.values())}")
        self.function, self.identity, self.name, self.workers = function, f"table:{identity}", name, workers
        self.calls = 0
        self._lock = threading.Lock()

    def load(self, request: Request) -> Load:
        """A function costs no tokens."""
        return Load()

    def answer(self, requests: Sequence[Request]) -> list[Reply | Trouble | Refusal]:
        """One call of the function for each."""
        out: list[Reply | Trouble | Refusal] = []
        for request in requests:
            with self._lock:
                self.calls += 1
            try:
                value = self.function(request)
            except (Trouble, Refusal) as problem:
                out.append(problem)
            else:
                out.append(value if isinstance(value, Reply) else Reply(value))
        return out
