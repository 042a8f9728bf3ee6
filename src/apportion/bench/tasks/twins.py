"""Twins: places that look the same and are not, because of something done earlier and no longer seen.

A lever sets a hidden switch, mostly as it says. A grey corridor leads to a door, and the right way through it hangs on
the switch. Whoever takes equal observations for equal states mixes two futures.

Source    the tiger and hallway problems (Kaelbling et al. 1998), cut down to one hidden bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from apportion.bench.tasks.registry import register_task
from apportion.errors import ConfigError

PAYS = {("red", "push"): 1.0, ("blue", "pull"): 0.6}  # (switch, what is done to the door)

State = tuple[str, int]  # the switch, "" before a lever is pulled; squares walked


@register_task(
    "twins",
    about="equal observations with different futures: what was chosen before is no longer seen",
    strengths=(1.0, 4.0),
    small={"squares": 1, "horizon": 4},
)
@dataclass(frozen=True)
class Twins:
    """The rules: two levers, ``squares`` of corridor, one door; a lever fails with probability ``slip``."""

    horizon: int = 8
    squares: int = 3
    slip: float = 0.2
    show_time: bool = False

    def __post_init__(self) -> None:
        if self.horizon < 1 or self.squares < 0 or not 0.0 <= self.slip < 1.0:
            raise ConfigError(
                f"twins: horizon {self.horizon}, squares {self.squares}, slip {self.slip}; give at least 1, 0, and "
                "a probability below 1"
            )

    def starts(self) -> list[tuple[float, State]]:
        """Before the levers."""
        return [(1.0, ("", 0))]

    def text(self, state: State, left: int) -> str:
        """Where the player stands; of the switch nothing."""
        switch, walked = state
        clock = f" Steps left: {left}." if self.show_time else ""
        if not switch:
            return f"Two levers, red and blue.{clock}"
        if walked < self.squares:
            return f"A grey corridor, square {walked + 1} of {self.squares}.{clock}"
        return f"A grey door.{clock}"

    def actions(self, state: State) -> tuple[str, ...]:
        """Two levers, then walking or waiting, then two ways to try the door."""
        switch, walked = state
        if not switch:
            return ("pull red", "pull blue")
        return ("walk", "wait") if walked < self.squares else ("push", "pull")

    def step(self, state: State, action: str) -> list[tuple[float, State, float, bool]]:
        """Only the lever is uncertain; the door ends the game."""
        switch, walked = state
        if not switch:
            wanted = action.removeprefix("pull ")
            other = "blue" if wanted == "red" else "red"
            chances = ((1.0 - self.slip, wanted), (self.slip, other))
            return [(p, (set_to, 0), 0.0, False) for p, set_to in chances if p > 0]
        if action in ("walk", "wait"):
            return [(1.0, (switch, walked + (action == "walk")), 0.0, False)]
        return [(1.0, state, PAYS.get((switch, action), 0.0), True)]

    def won(self, state: State, action: str) -> bool:
        """The door was opened the way that the switch asks for."""
        return (state[0], action) in PAYS
