"""CraftTree: craft the goal from few raw materials; a wrong gather cannot be undone, and only the goal pays.

Small enough that value, action value and advantage of any policy are known exactly, and still hard
credit: the decision that ruins an episode is a gather made many steps before the end.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.envs.tabular import TabularEnv
from apportion.errors import ConfigError

RAW = ("log", "coal", "ore")
RECIPES: dict[str, tuple[int, dict[str, int]]] = {  # item: (how many it makes, what it uses up)
    "plank": (2, {"log": 1}),
    "stick": (2, {"plank": 1}),
    "pickaxe": (1, {"plank": 2, "stick": 1}),
    "torch": (2, {"stick": 1, "coal": 1}),
    "chest": (1, {"plank": 3}),
    "lamp": (1, {"torch": 1, "ore": 1}),
}
GOALS = ("pickaxe", "torch", "chest", "lamp")

State = tuple[str, int, tuple[tuple[str, int], ...]]  # goal, gathers left, inventory sorted by item


@dataclass(frozen=True)
class CraftTree:
    """The rules. `goal` "any" draws one of the four goals evenly; it is part of the state and the text."""

    horizon: int = 9
    budget: int = 4
    goal: str = "any"
    show_time: bool = False

    def __post_init__(self) -> None:
        if self.goal != "any" and self.goal not in GOALS:
            raise ConfigError(f"crafttree: goal is {self.goal!r}; it takes any, {', '.join(GOALS)}")
        if self.horizon < 1 or self.budget < 1:
            raise ConfigError(f"crafttree: horizon {self.horizon} and budget {self.budget} must be 1 or more")

    def starts(self) -> list[tuple[float, State]]:
        """An empty inventory, with each goal equally likely."""
        goals = GOALS if self.goal == "any" else (self.goal,)
        return [(1 / len(goals), (goal, self.budget, ())) for goal in goals]

    def text(self, state: State, left: int) -> str:
        """Goal, gathers left and inventory: the full state but for the clock."""
        goal, gathers, inventory = state
        held = ", ".join(f"{count} {item}" for item, count in inventory) or "nothing"
        clock = f" Steps left: {left}." if self.show_time else ""
        return f"Goal: craft {goal}. Gathers left: {gathers}. Inventory: {held}.{clock}"

    def actions(self, state: State) -> tuple[str, ...]:
        """Gathers while there are any left, every recipe whose ingredients are there, and waiting."""
        held = dict(state[2])
        gathers = [f"get {item}" for item in RAW] if state[1] else []
        crafts = [
            f"craft {item}"
            for item, (_, uses) in RECIPES.items()
            if all(held.get(part, 0) >= count for part, count in uses.items())
        ]
        return (*gathers, *crafts, "wait")

    def step(self, state: State, action: str) -> list[tuple[float, State, float, bool]]:
        """One certain outcome; crafting the goal pays 1 and ends the game."""
        goal, gathers, inventory = state
        if action == "wait":
            return [(1.0, state, 0.0, False)]
        verb, item = action.split()
        held = dict(inventory)
        if verb == "get":
            held[item] = held.get(item, 0) + 1
            gathers -= 1
        else:
            makes, uses = RECIPES[item]
            for part, count in uses.items():
                held[part] -= count
            held[item] = held.get(item, 0) + makes
        after = (goal, gathers, tuple(sorted((i, n) for i, n in held.items() if n)))
        done = self.won(state, action)
        return [(1.0, after, float(done), done)]

    def won(self, state: State, action: str) -> bool:
        """The goal item is made."""
        return action == f"craft {state[0]}"


@register("crafttree")
def crafttree(*, horizon: int = 9, budget: int = 4, goal: str = "any", show_time: bool = False) -> TabularEnv:
    """CraftTree as a text environment.

    Args:
        horizon: steps of an episode.
        budget: how many gathers there are.
        goal: pickaxe, torch, chest, lamp, or "any": the seed draws one.
        show_time: write the steps left into the observation, which makes it Markov.
    """
    rules = CraftTree(horizon, budget, goal, show_time)
    spec = EnvSpec(
        name="crafttree",
        options=tuple(sorted(asdict(rules).items())),
        full_state=True,
        shows_time=show_time,
        noise=DETERMINISTIC,
        max_steps=horizon,
        free_text=False,
        reward="1 for crafting the goal, which ends the episode; 0 otherwise",
        return_range=(0.0, 1.0),
    )
    return TabularEnv(spec, rules)
