"""Playing seeded episodes, as lists of plain moments that can be compared, stored and sent."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from apportion.envs.protocol import DETERMINISTIC, TextEnv

NONSENSE = "qqq xyzzy 7"  # no environment can mean anything by it


class Moment(NamedTuple):
    """What one step showed, and the key of the state it led to."""

    text: str
    reward: float
    terminated: bool
    truncated: bool
    invalid: bool
    key: str

    @property
    def over(self) -> bool:
        """Whether the episode ended here."""
        return self.terminated or self.truncated


def act(env: TextEnv, action: str) -> Moment:
    """One step."""
    text, reward, terminated, truncated, info = env.step(action)
    return Moment(text, reward, terminated, truncated, bool(info.get("invalid")), env.state_key(by="state"))


def choose(env: TextEnv, rng: random.Random) -> str:
    """A random listed action; in free text mostly the expert's, now and then nonsense."""
    listed = env.actions()
    if listed:
        return rng.choice(listed)
    advice = env.expert()
    return advice[0] if advice and rng.random() < 0.8 else NONSENSE


def go_on(env: TextEnv, rng: random.Random, *, expert: bool = False) -> Iterator[Moment]:
    """Play from here to the end, at random or by the expert's plans."""
    plan: list[str] = []
    over = False
    while not over:
        if expert and not plan:
            plan = list(env.expert() or ())
        moment = act(env, plan.pop(0) if plan else choose(env, rng))
        if env.spec.noise != DETERMINISTIC:
            plan = []
        over = moment.over
        yield moment


def walk(env: TextEnv, seed: int, *, expert: bool = False, options: dict[str, Any] | None = None) -> Iterator[Moment]:
    """An episode from its start, which is the first moment."""
    text, _ = env.reset(seed=seed, options=options)
    yield Moment(text, 0.0, False, False, False, env.state_key(by="state"))
    yield from go_on(env, random.Random(seed), expert=expert)


def play(env: TextEnv, seed: int, *, expert: bool = False, options: dict[str, Any] | None = None) -> list[Moment]:
    """The whole episode."""
    return list(walk(env, seed, expert=expert, options=options))
