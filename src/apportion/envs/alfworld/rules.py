"""A small household as enumerable rules, for exact values: the same game with everything in view.

table = tabulate(Household(seed=3, receptacles=4, objects=2))
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from apportion.envs.alfworld.generate import generate_game
from apportion.envs.alfworld.memory import SHUT, told
from apportion.envs.alfworld.player import Player, State
from apportion.envs.alfworld.problem import KINDS, read_problem

IDLE = ("help", "inventory", "look")  # say something and change nothing


@dataclass(frozen=True)
class Household:
    """A generated game. Commands that only inform are left out but for `look`, since everything is in view.

    seed, kinds, receptacles, objects: see `generate_game`. horizon: steps. show_time: the text tells the steps left.
    """

    seed: int = 0
    kinds: tuple[str, ...] = KINDS
    receptacles: int = 4
    objects: int = 2
    horizon: int = 12
    show_time: bool = False

    @cached_property
    def player(self) -> Player:
        """The rules of the game."""
        data = generate_game(self.seed, kinds=self.kinds, receptacles=self.receptacles, objects=self.objects)
        return Player(read_problem(data, f"household {self.seed}"))

    def starts(self) -> list[tuple[float, State]]:
        """The one start."""
        return [(1.0, self.player.start)]

    def text(self, state: State, left: int) -> str:
        """The summary of somebody who has just looked everywhere, through doors that are open."""
        here = self.player.receptacles_here(state)
        sights = tuple(
            SHUT if self.player.is_shut(state, r) else inside for r, inside in enumerate(state[3])
        )  # what a closed door hides does not change while it is closed
        text = told(self.player, (here[0] if here else -1, sights), state)
        return f"{text} Steps left: {left}." if self.show_time else text

    def actions(self, state: State) -> tuple[str, ...]:
        """What is admissible, without examining and with one way to wait."""
        return tuple(c for c in self.player.commands(state) if not c.startswith("examine") and c not in IDLE[:2])

    def step(self, state: State, action: str) -> list[tuple[float, State, float, bool]]:
        """One certain outcome; finishing the task pays 1."""
        after, _ = self.player.apply(state, self.player.commands(state)[action])
        won = self.player.won(after)
        return [(1.0, after, float(won), won)]

    def won(self, state: State, action: str) -> bool:
        """Whether this action finishes the task."""
        return self.step(state, action)[0][3]
