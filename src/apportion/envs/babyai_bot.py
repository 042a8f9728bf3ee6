"""The bot of minigrid as an expert: its plan from a moment, and an end to its turns that would have none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from apportion.errors import EnvError

ACTIONS = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")  # minigrid's numbers 0 to 5
MOST_SEARCHES = 100  # of the bot in one turn; a turn that ends takes a handful

# What to do first when the bot is asked with its hands full: it plans from empty hands.
PREFIXES: tuple[tuple[str, ...], ...] = (
    (),
    ("drop",),
    ("turn left", "drop"),
    ("turn right", "drop"),
    ("turn left", "turn left", "drop"),
)


def bot_plan(world: Any, prefix: tuple[str, ...], cap: int) -> list[str] | None:
    """The bot's actions after the prefix until it wins, at most ``cap`` in all; None where it knows no way.

    ``world`` is played on: give a copy.
    """
    from minigrid.utils.baby_ai_bot import BabyAIBot

    plan: list[str] = []
    try:
        for action in prefix:
            plan.append(action)
            world.step(ACTIONS.index(action))
        if world.carrying and prefix:
            return None
        bot: Any = BabyAIBot(world)  # type: ignore[no-untyped-call]
        while len(plan) < cap:
            with _patience(bot):
                move = int(bot.replan())
            if move >= len(ACTIONS):  # "done": it believes the goal is reached, and it is not
                return None
            plan.append(ACTIONS[move])
            _, _, terminated, _, _ = world.step(move)
            if terminated:
                break
    except Exception:  # the bot asserts what it believes, and gives up by raising whatever comes
        return None
    return plan[:cap]


@contextlib.contextmanager
def _patience(bot: Any) -> Iterator[None]:
    """Raise once the bot has searched for ways too often in one turn: in some mazes it would do so for ever."""
    search, looked = bot._shortest_path, 0

    def counted(*args: Any, **named: Any) -> Any:
        nonlocal looked
        looked += 1
        if looked > MOST_SEARCHES:
            raise EnvError("babyai: the bot goes round in circles")
        return search(*args, **named)

    bot._shortest_path = counted
    try:
        yield
    finally:
        bot._shortest_path = search
