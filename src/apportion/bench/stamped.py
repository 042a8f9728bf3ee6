"""Noisy observations: the same game, each of whose texts carries a request id and a time that mean nothing.

The noise is part of the enumeration, so values are exact also for a policy that (like a transformer) reads the stamp.
Equal states show ``stamps`` different texts: whoever compares texts letter by letter takes them for different states.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.envs.table import Enumerable
from apportion.errors import ConfigError

State = tuple[Hashable, int]  # state of the game; which stamp its text shows


@dataclass(frozen=True)
class Stamped:
    """The rules of ``rules`` under stamped texts, drawn evenly and anew in every step."""

    rules: Enumerable[Any]
    stamps: int = 4

    def __post_init__(self) -> None:
        if self.stamps < 1:
            raise ConfigError(f"stamps is {self.stamps}; give at least 1")

    @property
    def horizon(self) -> int:
        """As the game's."""
        return self.rules.horizon

    @property
    def show_time(self) -> bool:
        """As the game's; the stamps are no clock."""
        return self.rules.show_time

    def starts(self) -> list[tuple[float, State]]:
        """Every start under every stamp."""
        return [(p / self.stamps, (x, k)) for p, x in self.rules.starts() for k in range(self.stamps)]

    def gist(self, state: State, left: int) -> str:
        """The text without its stamp: what a sensible policy goes by."""
        return self.rules.text(state[0], left)

    def text(self, state: State, left: int) -> str:
        """The game's text behind an id and a time that only this state and this stamp have."""
        inner, k = state
        seal = hashlib.blake2b(repr((inner, k)).encode(), digest_size=16).digest()
        second = int.from_bytes(seal[8:], "big") % 86_400
        clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        return f"[request {uuid.UUID(bytes=seal)}, 2026-03-14T{clock}Z] {self.rules.text(inner, left)}"

    def actions(self, state: State) -> tuple[str, ...]:
        """As the game's."""
        return self.rules.actions(state[0])

    def step(self, state: State, action: str) -> list[tuple[float, State, float, bool]]:
        """As the game's, with a fresh stamp; a game that is over shows none."""
        return [
            (p / n, (x, k), reward, done)
            for p, x, reward, done in self.rules.step(state[0], action)
            for n in (1 if done else self.stamps,)
            for k in range(n)
        ]

    def won(self, state: State, action: str) -> bool:
        """As the game's."""
        return self.rules.won(state[0], action)

    def agent(self, state: State) -> str:
        """As the game's; "" where it has no agents."""
        who: str = getattr(self.rules, "agent", lambda x: "")(state[0])
        return who

    def absent(self, state: State) -> str:
        """As the game's, for games that have agents."""
        action: str = getattr(self.rules, "absent")(state[0])  # noqa: B009 - not every game has it
        return action


def plain(rules: Enumerable[Any], states: Sequence[Any]) -> tuple[Enumerable[Any], list[Any]]:
    """The game below the stamps, and its states; the same where there are none."""
    if isinstance(rules, Stamped):
        return rules.rules, [x for x, _ in states]
    return rules, list(states)
