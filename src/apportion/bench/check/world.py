"""A small text world in which nothing is wrong: rooms, moves and a report at the end, with text and token ids.

It is deterministic and its observations tell the state, so that every finding about it is a false alarm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np

from apportion.data import Step, Trajectory

ROOMS = ("kitchen", "cellar", "attic", "garden", "hall", "library")
WORDS = tuple(
    "amber basil candle drawer ember fabric gravel hinge ivory jasmine kettle ladder mirror needle orchard pepper "
    "quilt ribbon saddle timber umber velvet walnut yarrow zinc anchor barrel copper dagger easel feather goblet "
    "hammer island jacket knuckle lantern marble nutmeg oyster pillow quarry russet silver thimble urchin violet "
    "wicker yellow zephyr bottle carpet dresser engine flower glove helmet inkwell jigsaw keyhole locket magnet "
    "napkin onion parcel quiver "
    "rattle shovel trumpet urn vessel window axle bridge cradle dome elbow fossil garnet hollow".split()
)
GROUPS, MEMBERS, MOVES = 10, 6, 7


def rollouts(rng: np.random.Generator, *, groups: int = GROUPS, members: int = MEMBERS) -> list[Trajectory]:
    """Rollouts of so many tasks; about half of them solve it, longer walks no more often than short ones."""
    out = []
    for g in range(groups):
        start, goal = int(rng.integers(len(ROOMS))), WORDS[int(rng.integers(len(WORDS)))]
        wins = rng.permutation(members) < members // 2
        for m in range(members):
            walk = _walk(rng, start)
            steps = [
                step(_seen(g, goal, room, first=k == 0), f"go {ROOMS[walk[k + 1]]}") for k, room in enumerate(walk[:-1])
            ]
            steps.append(step(_seen(g, goal, walk[-1], first=len(walk) == 1), report(rng), terminated=True))
            out.append(Trajectory(tuple(steps), group=f"task {g}", id=f"{g}/{m}", outcome=float(wins[m])))
    return out


def step(observation: str, action: str, **fields: object) -> Step:
    """A step with ids that stand for its words."""
    return replace(
        Step(observation=observation, action=action, prompt_ids=ids(observation), ids=ids(action)),
        **fields,  # type: ignore[arg-type]
    )


def ids(text: str) -> list[int]:
    """One id for each word, the same everywhere."""
    return [crc32(word.encode()) % 30_000 for word in text.split()]


def report(rng: np.random.Generator, words: int = 0, paragraphs: int = 3) -> str:
    """A text of different words in paragraphs."""
    words = words or int(rng.integers(60, 90))
    chosen = [WORDS[k] for k in rng.integers(len(WORDS), size=words)]
    parts = np.array_split(np.array(chosen), paragraphs)
    return "\n\n".join(" ".join(part.tolist()) + "." for part in parts)


def said(t: Trajectory, action: str, k: int = -1, **fields: object) -> Trajectory:
    """The rollout with another text as the action of step k."""
    steps = list(t.steps)
    steps[k] = replace(steps[k], action=action, ids=ids(action), **fields)  # type: ignore[arg-type]
    return replace(t, steps=tuple(steps))


def every(t: Trajectory, **fields: Sequence[object] | object) -> Trajectory:
    """The rollout with a field of every step replaced; a list gives one value for each."""
    steps = [
        replace(s, **{name: value[k] if isinstance(value, list) else value for name, value in fields.items()})  # type: ignore[arg-type]
        for k, s in enumerate(t.steps)
    ]
    return replace(t, steps=tuple(steps))


def seen_as(t: Trajectory, texts: Sequence[str]) -> Trajectory:
    """The rollout with other observations, text and ids."""
    steps = [replace(s, observation=text, prompt_ids=ids(text)) for s, text in zip(t.steps, texts, strict=True)]
    return replace(t, steps=tuple(steps))


def room_of(t: Trajectory, k: int) -> str:
    """The room that step k is in."""
    return (t.steps[k].observation or "").rpartition("in the ")[2].partition(".")[0]


def some(rng: np.random.Generator, n: int, low: float = 0.2, high: float = 0.6) -> list[int]:
    """A random part of n positions, of a share between the two."""
    count = max(2, round(n * float(rng.uniform(low, high))))
    return sorted(rng.choice(n, size=min(count, n), replace=False).tolist())


def _walk(rng: np.random.Generator, start: int) -> list[int]:
    walk = [start]
    for _ in range(int(rng.integers(2, MOVES))):
        walk.append(int((walk[-1] + rng.choice([1, 2, len(ROOMS) - 1])) % len(ROOMS)))
    return walk


def _seen(g: int, goal: str, room: int, *, first: bool) -> str:
    exits = ", ".join(ROOMS[(room + d) % len(ROOMS)] for d in (1, 2, len(ROOMS) - 1))
    task = f"Task: find the {goal} of house {g}. " if first else ""
    return f"{task}You are in the {ROOMS[room]}. Exits lead to {exits}."
