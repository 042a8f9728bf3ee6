"""Playing seeded episodes, as lists of plain moments that can be compared, stored and sent."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from apportion.envs.protocol import DETERMINISTIC, Snapshot, TextEnv

NONSENSE = "qqq xyzzy 7"  # no environment can mean anything by it
SEEDS = (0, 1, 2)  # of the episodes that checks play


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


def branches(env: TextEnv, snapshot: Snapshot) -> list[object]:
    """Text, actions, and what each action does; without what depends on noise, on the clock or on the way here."""
    certain = env.spec.noise == DETERMINISTIC
    text_now = env.restore(snapshot, noise_seed=7)
    seen: list[object] = [None if env.spec.reports else text_now, env.actions()]
    for action in env.actions() or (NONSENSE,):
        env.restore(snapshot, noise_seed=7)
        text, reward, terminated, _, invalid, _ = act(env, action)
        seen.append((action, text, reward if certain else None, terminated, invalid))
    return seen


def expert_wins(env: TextEnv, seed: int) -> bool:
    """Whether the expert's plans, followed from the start, end in success."""
    env.reset(seed=seed)
    plan: list[str] = []
    while True:
        plan = plan or list(env.expert() or (NONSENSE,))
        _, _, terminated, truncated, info = env.step(plan.pop(0))
        if env.spec.noise != DETERMINISTIC:
            plan = []
        if terminated or truncated:
            return info.get("success") is True
