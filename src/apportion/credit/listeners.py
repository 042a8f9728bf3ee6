"""What those who listen to the credit of a run remember, so that an interrupted run goes on as if it had not been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from apportion.credit.credit import Credit

EVALUATION = ("batch", "evaluation")
"""The note of a credit that a host hands to its listeners in an evaluation."""


@runtime_checkable
class Remembers(Protocol):
    """A listener with a memory."""

    def state(self) -> Mapping[str, Any]:
        """All that it remembers, as JSON values."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Remember what `state` gave."""


def in_evaluation(credit: Credit) -> Credit:
    """The same credit with the note that it is of an evaluation, for listeners that treat these otherwise."""
    return replace(credit, notes={**credit.notes, **dict([EVALUATION])})


def is_of_evaluation(credit: Credit) -> bool:
    """A host has said so."""
    return credit.notes.get(EVALUATION[0]) == EVALUATION[1]


def states_of(listeners: Sequence[Any]) -> list[dict[str, Any]]:
    """What listeners with a memory know, for a checkpoint; JSON values."""
    remembering = [one for one in listeners if isinstance(one, Remembers)]
    return [{"listener": type(one).__name__, "state": dict(one.state())} for one in remembering]


def restore_states(listeners: Sequence[Any], states: Sequence[Mapping[str, Any]]) -> None:
    """Let listeners know what those of their class, in order, did at a checkpoint; others begin anew."""
    left = list(states)
    for listener in listeners:
        kept = next((one for one in left if one["listener"] == type(listener).__name__), None)
        if isinstance(listener, Remembers) and kept is not None:
            left.remove(kept)
            listener.restore(kept["state"])
