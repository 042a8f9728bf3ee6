"""What environments and tools tell about the steps of their rollout, put beside the right steps.

    class Shop:                                     turn 0    turn 1         turn 2
        def reset(self, **row):                     two calls a call that    the answer
            self.step_rewards, self.states = [], [] of tools  TRL refused
        def buy(self, item: str) -> str:
            self.step_rewards.append(...)           +.5 +.5   nothing        (the reward functions')

An environment does not know in which turn it is called: a call may be malformed, and then no tool runs, and one turn
may hold several calls. So the lengths of its lists are noted at each generation, and what came in between two of them
belongs to the turn between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

KEPT = ("step_rewards", "states", "agents", "values", "step_parts")
"""Lists that an environment may keep as attributes."""

Marks = list[dict[str, int]]
"""For each row, how long each list of its environment is."""


def marks_of(environments: Sequence[Any]) -> Marks:
    """How long the lists are now."""
    return [{name: len(values) for name, values in _lists(environment).items()} for environment in environments]


def kept_by(environment: Any, marks: Sequence[Mapping[str, int]], turns: int) -> dict[str, list[Any]]:
    """The lists of one environment, one entry for each turn that they reach.

    Args:
        environment: whose attributes named in `KEPT` are read where they are lists.
        marks: the length of each list before each generation.
        turns: how often the policy spoke.

    Returns:
        By name. A list that did not grow while tools ran is taken as it is, in order. Of one that grew, the rewards of
        a turn's calls are added, and a turn without calls has none. Where there was an entry before the first turn (the
        state after `reset`), what was newest before a turn stands for it, else the first that came during it.
    """
    out: dict[str, list[Any]] = {}
    for name, values in _lists(environment).items():
        at = [mark.get(name, 0) for mark in marks]
        if not at or at[-1] == at[0]:
            out[name] = values
            continue
        ends = [*at[1:turns], len(values)]
        during = [values[first:last] for first, last in zip(at[:turns], ends, strict=True)]
        if name == "step_rewards":
            out[name] = [_added(part) for part in during]
        elif name == "step_parts":
            out[name] = [_merged(part) for part in during]
        elif at[0]:
            out[name] = [values[first - 1] for first in at[:turns]]
        else:
            out[name] = [part[0] if part else None for part in during]
    return out


def _lists(environment: Any) -> dict[str, list[Any]]:
    found = {name: getattr(environment, name, None) for name in KEPT}
    return {name: list(values) for name, values in found.items() if isinstance(values, list | tuple)}


def _added(rewards: Sequence[float | None]) -> float | None:
    told = [float(reward) for reward in rewards if reward is not None]
    return sum(told) if told else None


def _merged(parts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    out: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            out[name] = out.get(name, 0.0) + float(value)
    return out
