"""Chain: one long line of words, a few of which decide; the rest is free, and all is paid at the end.

Source    written for this library, after the planted-token tests of token-level credit (SCAR, TEMPO).
"""

from __future__ import annotations

from dataclasses import dataclass

from apportion.bench.tasks.registry import register_task
from apportion.errors import ConfigError

WORDS = ("so", "then", "thus")  # the last is the right one where it matters

State = tuple[int, int]  # words written; decisive ones that were right


@register_task(
    "chain",
    about="a long line of words in which a few decide, and nothing is paid before the end",
    strengths=(1.0, 6.0),
    small={"horizon": 6, "decisive": (1, 4)},
)
@dataclass(frozen=True)
class Chain:
    """The rules: ``horizon`` words; those at ``decisive`` (counted from 0) count, (right / all of them)^2 is paid."""

    horizon: int = 24
    decisive: tuple[int, ...] = (3, 11, 19)
    show_time: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "decisive", tuple(sorted({int(i) for i in self.decisive})))
        if not self.decisive or self.decisive[0] < 0 or self.decisive[-1] >= self.horizon:
            raise ConfigError(
                f"chain: decisive {self.decisive} with horizon {self.horizon}; give at least one place before the end"
            )

    def starts(self) -> list[tuple[float, State]]:
        """Nothing written."""
        return [(1.0, (0, 0))]

    def text(self, state: State, left: int) -> str:
        """How far, and how many decisive words were right; the place already is the clock."""
        clock = f" Steps left: {left}." if self.show_time else ""
        return f"Word {state[0] + 1} of {self.horizon}, {state[1]} right.{clock}"

    def actions(self, state: State) -> tuple[str, ...]:
        """The same words everywhere."""
        return WORDS

    def step(self, state: State, action: str) -> list[tuple[float, State, float, bool]]:
        """One word further."""
        written, right = state
        right += written in self.decisive and action == WORDS[-1]
        last = written + 1 == self.horizon
        return [(1.0, (written + 1, right), (right / len(self.decisive)) ** 2 if last else 0.0, last)]

    def won(self, state: State, action: str) -> bool:
        """All decisive words were right."""
        written, right = state
        return right + (written in self.decisive and action == WORDS[-1]) == len(self.decisive)
