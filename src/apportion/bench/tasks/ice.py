"""Ice: a small grid on which steps slip; states recur in every episode, and the same step can end well or badly.

Source    the frozen-lake grid of Gymnasium, written anew as words, with a reward for a short way.
"""

from __future__ import annotations

from dataclasses import dataclass

from apportion.bench.tasks.registry import register_task
from apportion.errors import ConfigError

MOVES = {"north": (0, -1), "east": (1, 0), "south": (0, 1), "west": (-1, 0)}
HOLES = frozenset({(1, 1), (3, 1), (0, 3)})

State = tuple[int, int]


@register_task(
    "ice",
    about="random transitions: states recur all the time, and luck looks like skill",
    strengths=(5.0, 20.0),
    small={"horizon": 3, "width": 2, "height": 2},
)
@dataclass(frozen=True)
class Ice:
    """The rules: from the north-west corner to the south-east one; with probability ``slip`` a step goes sideways."""

    horizon: int = 12
    width: int = 4
    height: int = 4
    slip: float = 0.2
    show_time: bool = False

    def __post_init__(self) -> None:
        if self.horizon < 1 or min(self.width, self.height) < 2 or not 0.0 <= self.slip <= 1.0:
            raise ConfigError(
                f"ice: horizon {self.horizon}, width {self.width}, height {self.height}, slip {self.slip}; give at "
                "least 1, 2, 2, and a probability"
            )

    def starts(self) -> list[tuple[float, State]]:
        """The north-west corner."""
        return [(1.0, (0, 0))]

    def text(self, state: State, left: int) -> str:
        """The square."""
        clock = f" Steps left: {left}." if self.show_time else ""
        return f"You stand on ice, column {state[0] + 1}, row {state[1] + 1}.{clock}"

    def actions(self, state: State) -> tuple[str, ...]:
        """Four directions."""
        return tuple(MOVES)

    def step(self, state: State, action: str) -> list[tuple[float, State, float, bool]]:
        """The step, or one to either side; a hole ends the game for nothing, the far corner pays 1."""
        dx, dy = MOVES[action]
        sides = ((1.0 - self.slip, (dx, dy)), (self.slip / 2, (dy, dx)), (self.slip / 2, (-dy, -dx)))
        chances: dict[State, float] = {}
        for p, (mx, my) in sides:
            at = (min(max(state[0] + mx, 0), self.width - 1), min(max(state[1] + my, 0), self.height - 1))
            chances[at] = chances.get(at, 0.0) + p
        goal = (self.width - 1, self.height - 1)
        return [(p, at, float(at == goal), at == goal or at in HOLES) for at, p in chances.items() if p > 0]

    def won(self, state: State, action: str) -> bool:
        """The step can lead to the far corner."""
        return any(reward > 0 for _, _, reward, _ in self.step(state, action))
