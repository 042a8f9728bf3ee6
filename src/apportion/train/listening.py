"""Whoever wants to see each batch's credit before it is trained on, and may end the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apportion.credit import Credit
from apportion.credit.listeners import restore_states, states_of
from apportion.errors import StopRun

OnCredit = Callable[[Credit, int], Mapping[str, float] | None]
"""Called with the credit of a batch and the iteration; numbers that it returns go into the metrics."""


class Listening:
    """All listeners of a run.

    Attributes:
        reason: why one of them ended the run; None as long as nobody did.
    """

    def __init__(self, listeners: OnCredit | Sequence[OnCredit]) -> None:
        self._listeners: tuple[Any, ...] = (listeners,) if callable(listeners) else tuple(listeners)
        self.reason: str | None = None

    def __call__(self, credit: Credit, iteration: int) -> dict[str, Any]:
        """What they say, for the line of this iteration: "check/errors" becomes ``{"check": {"errors": …}}``."""
        line: dict[str, Any] = {}
        for listener in self._listeners:
            try:
                told = listener(credit, iteration)
            except StopRun as stop:
                told, self.reason = stop.numbers, self.reason or str(stop)
            for name, value in (told or {}).items():
                table, _, key = name.partition("/")
                line.setdefault(table if key else "listeners", {})[key or name] = value
        if self.reason is not None:
            line["stopped"] = self.reason
        return line

    def state(self) -> list[dict[str, Any]]:
        """What listeners with a ``state`` remember, for a checkpoint; JSON values."""
        return states_of(self._listeners)

    def restore(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Let listeners remember what those of their kind, in order, did at a checkpoint; others begin anew."""
        restore_states(self._listeners, states)
