"""Relay: a planner sends a message, a worker acts on it, some legs long, and the team is paid at the end.

What each agent contributes is known: an agent that is taken away says or does nothing, and the expected return of
every coalition is exact (`apportion.bench.agents`).

Source    written for this library; the coalitions as in SHARP (arXiv:2602.08335), where they are masked.
"""

from __future__ import annotations

from dataclasses import dataclass

from apportion.bench.tasks.registry import register_task
from apportion.errors import ConfigError

DONE = {  # (message, work): how likely the leg is done
    ("map", "follow"): 0.9, ("map", "improvise"): 0.5, ("rumour", "follow"): 0.2, ("rumour", "improvise"): 0.5,
    ("", "follow"): 0.0, ("", "improvise"): 0.4,
}  # fmt: skip
MESSAGES = {"send map": "map", "send rumour": "rumour", "say nothing": ""}
WORK = ("follow", "improvise", "do nothing")

State = tuple[int, int, str | None]  # legs over, legs done, the message; None: the planner's turn


@register_task(
    "relay",
    about="two agents, one reward at the end; what each contributes is known exactly",
    strengths=(1.0, 6.0),
    small={"legs": 2},
)
@dataclass(frozen=True)
class Relay:
    """The rules: ``legs`` legs of two steps; the share of legs done is paid after the last."""

    legs: int = 3
    show_time: bool = False

    def __post_init__(self) -> None:
        if self.legs < 1:
            raise ConfigError(f"relay: legs is {self.legs}; give at least 1")

    @property
    def horizon(self) -> int:
        """Two steps a leg."""
        return 2 * self.legs

    def agent(self, state: State) -> str:
        """Whose turn it is."""
        return "planner" if state[2] is None else "worker"

    def absent(self, state: State) -> str:
        """What is done where the agent is taken away."""
        return "say nothing" if state[2] is None else "do nothing"

    def starts(self) -> list[tuple[float, State]]:
        """The first leg, the planner's turn."""
        return [(1.0, (0, 0, None))]

    def text(self, state: State, left: int) -> str:
        """The leg, how many are done, and for the worker the message."""
        over, done, message = state
        clock = f" Steps left: {left}." if self.show_time else ""
        told = "" if message is None else f" The planner sent {message or 'nothing'}."
        return f"You are the {self.agent(state)}. Leg {over + 1} of {self.legs}, {done} done.{told}{clock}"

    def actions(self, state: State) -> tuple[str, ...]:
        """Three messages, or three ways to work."""
        return tuple(MESSAGES) if state[2] is None else WORK

    def step(self, state: State, action: str) -> list[tuple[float, State, float, bool]]:
        """A message is heard; work is done or not."""
        over, done, message = state
        if message is None:
            return [(1.0, (over, done, MESSAGES[action]), 0.0, False)]
        p, last = DONE.get((message, action), 0.0), over + 1 == self.legs
        outcomes = ((p, done + 1), (1.0 - p, done))
        return [(q, (over + 1, d, None), d / self.legs if last else 0.0, last) for q, d in outcomes if q > 0]

    def won(self, state: State, action: str) -> bool:
        """No leg was lost before the last, and the last was tried."""
        return state[1] == self.legs - 1 and (state[2], action) in DONE
