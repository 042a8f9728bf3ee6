"""One trajectory read by turns or by agents: what the steps of each got together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from apportion.report.unit_runs import step_values


class Span(NamedTuple):
    """Steps that belong together.

    Attributes:
        name: the agent, or "turn 2". steps: their positions. value: mean credit over their tokens, None where unknown.
    """

    name: str
    steps: tuple[int, ...]
    value: float | None


def levels(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """The levels above the step that say something of their own: "turn", "agent"."""
    turns = len({step["turn"] for step in steps})
    agents = len({step.get("agent", "") for step in steps})
    return (["turn"] if 1 < turns < len(steps) else []) + (["agent"] if agents > 1 else [])


def spans(trajectory: Mapping[str, Any], credit: str, by: str) -> list[Span]:
    """The trajectory cut by "turn" or "agent", in order of appearance.

    Args:
        trajectory: an entry of a report model. credit: which of its credits.
    """
    entry = trajectory["credit"][credit]
    values = step_values(entry)
    kept: dict[Any, list[int]] = {}
    for s, step in enumerate(trajectory["steps"]):
        kept.setdefault(step["turn"] if by == "turn" else step.get("agent", ""), []).append(s)
    out = []
    for k, (key, steps) in enumerate(kept.items()):
        total = weight = 0.0
        for s in steps:
            value = values[s]
            if value is not None:
                size = max(1, sum(run[2] for run in entry["runs"][s]))
                total, weight = total + value * size, weight + size
        name = f"turn {k}" if by == "turn" else key or "nobody named"
        out.append(Span(name, tuple(steps), total / weight if weight else None))
    return out
