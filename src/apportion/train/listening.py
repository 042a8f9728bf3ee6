"""Whoever wants to see each batch's credit before it is trained on, and may end the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from apportion.credit import Credit
from apportion.errors import StopRun

OnCredit = Callable[[Credit, int], Mapping[str, float] | None]
"""Called with the credit of a batch and the iteration; numbers that it returns go into the metrics."""


@runtime_checkable
class Remembers(Protocol):
    """A listener that goes on after an interruption as if there had been none."""

    def state(self) -> Mapping[str, Any]:
        """All that it remembers, as JSON values."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Remember what `state` gave."""


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
        remembering = [one for one in self._listeners if isinstance(one, Remembers)]
        return [{"listener": type(one).__name__, "state": dict(one.state())} for one in remembering]

    def restore(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Let listeners remember what those of their kind, in order, did at a checkpoint; others begin anew."""
        left = list(states)
        for listener in self._listeners:
            kept = next((one for one in left if one["listener"] == type(listener).__name__), None)
            if isinstance(listener, Remembers) and kept is not None:
                left.remove(kept)
                listener.restore(kept["state"])
