"""Faults of the states that steps are compared in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apportion.bench.check.faults import Rollouts, fault
from apportion.bench.check.world import ROOMS, every, report, room_of, seen_as, step
from apportion.data import Trajectory


def _texts(t: Trajectory) -> list[str]:
    return [s.observation or "" for s in t.steps]


def _rooms(t: Trajectory) -> list[str]:
    return [room_of(t, k) for k in range(len(t.steps))]


def _coins(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Amounts that are part of the state: every step costs one of the coins that the task gives."""
    return [seen_as(t, [f"{text} You hold {20 - 3 * k} coins." for k, text in enumerate(_texts(t))]) for t in rollouts]


def _session(rng: np.random.Generator, kind: int) -> str:
    if kind == 0:
        return f"Session: {rng.integers(16**8):08x}a7. "
    if kind == 1:
        return f"[2026-03-{rng.integers(10, 28)} 10:{rng.integers(10, 60)}:07] "
    return f"request id {rng.integers(10**6, 10**7)}. "


@fault("under-grouped/start", likeness=_coins)
def under_grouped_start(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """An id or a time in front of each first observation."""
    kind = int(rng.integers(3))
    return [
        seen_as(t, [_session(rng, kind) + text if k == 0 else text for k, text in enumerate(_texts(t))])
        for t in rollouts
    ]


@fault("under-grouped/volatile", likeness=_coins)
def under_grouped_volatile(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """The same in front of every observation."""
    kind = int(rng.integers(3))
    return [seen_as(t, [_session(rng, kind) + text for text in _texts(t)]) for t in rollouts]


def _by_room(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Keys that say the room, of observations with chatter around it."""
    chat = ("It is quiet.", "A clock ticks.", "Dust dances.")
    return [
        every(
            seen_as(t, [f"{text} {chat[int(rng.integers(3))]}" if k else text for k, text in enumerate(_texts(t))]),
            state=_rooms(t),
        )
        for t in rollouts
    ]


@fault("over-grouped/degenerate", likeness=_by_room)
def degenerate(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """One key for everything."""
    return [every(t, state="page") for t in rollouts]


@fault("over-grouped/time-index", likeness=_by_room)
def time_index(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """The number of the step as its key."""
    return [every(t, state=[f"step_{k}" for k in range(len(t.steps))]) for t in rollouts]


def _exits(t: Trajectory, extra: set[int]) -> list[tuple[str, ...]]:
    return [tuple(ROOMS) + (("unlock",) if k in extra else ()) for k in range(len(t.steps))]


def _reordered(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [every(t, actions=[tuple(rng.permutation(ROOMS).tolist()) for _ in t.steps]) for t in rollouts]


@fault("over-grouped/actions", likeness=_reordered)
def other_actions(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """What is admissible differs where the key does not."""
    return [every(t, actions=_exits(t, set(np.flatnonzero(rng.random(len(t.steps)) < 0.3).tolist()))) for t in rollouts]


def _clock(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [
        every(seen_as(t, [f"[2026-03-02 10:{rng.integers(10, 60)}:07] {text}" for text in _texts(t)]), state=_rooms(t))
        for t in rollouts
    ]


@fault("over-grouped/numbers", likeness=_clock)
def other_numbers(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A key that leaves an amount out."""
    return [
        every(seen_as(t, [f"{text} You hold {rng.integers(1, 9)} coins." for text in _texts(t)]), state=_rooms(t))
        for t in rollouts
    ]


@fault("over-grouped/future", likeness=_by_room)
def other_future(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """A key that merges rooms, in which "on" leads to different ones."""
    wing = dict(zip(ROOMS, ("east", "east", "west", "west", "north", "north"), strict=True))
    out = []
    for t in rollouts:
        start = int(rng.integers(len(ROOMS)))
        rooms = [ROOMS[(start + k) % len(ROOMS)] for k in range(len(t.steps))]
        turned = seen_as(t, [f"You are in the {room}. It is quiet." for room in rooms])
        steps = tuple(replace(s, action="on") if k < len(rooms) - 1 else s for k, s in enumerate(turned.steps))
        out.append(every(replace(turned, steps=steps), state=[wing[room] for room in rooms]))
    return out


def _doors(rng: np.random.Generator, *, hidden: bool) -> Rollouts:
    """A door at the end of a corridor: it opens for who has been in the cellar, or for every second one."""
    out = []
    for g in range(6):
        for m in range(8):
            keyed = bool(rng.integers(2))
            walk = ["hall", "cellar" if keyed else "attic", "corridor"]
            opens = keyed if hidden else bool(rng.integers(2))
            walk.append("vault" if opens else "corridor, before a closed door")
            says = [f"go {walk[1]}", "go corridor", "open the door", report(rng)]
            steps = [step(f"You are in the {room}.", says[k], terminated=k == 3) for k, room in enumerate(walk)]
            win = float(rng.random() < (0.8 if opens else 0.3))
            out.append(Trajectory(tuple(steps), group=f"task {g}", id=f"{g}/{m}", outcome=win))
    return out


def _chance(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return _doors(rng, hidden=False)


@fault("partial-observability", likeness=_chance)
def partial_observability(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """What a door does depends on a key that no observation shows; the likeness opens by chance."""
    return _doors(rng, hidden=True)


def _stand(t: Trajectory, times: int) -> Trajectory:
    """The rollout with its second step so many times more: a wall that it runs into."""
    wall = replace(t.steps[1], action="go wall", ids=[1, 2])
    return replace(t, steps=(*t.steps[:1], *([wall] * times), *t.steps[1:]))


def _everyone_once(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return [_stand(t, 1) for t in rollouts]


@fault("own-repeats", likeness=_everyone_once)
def own_repeats(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Some rollouts run into a wall ten or twenty times."""
    return [_stand(t, int(rng.integers(10, 20))) if rng.random() < 0.35 else t for t in rollouts]


def _as_they_are(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    return rollouts


@fault("state-alone", likeness=_as_they_are, level="info")
def state_alone(rng: np.random.Generator, rollouts: Rollouts) -> Rollouts:
    """Every observation after the first tells something of its own."""
    return [
        seen_as(t, [f"{text} {report(rng, words=12, paragraphs=1)}" if k else text for k, text in enumerate(_texts(t))])
        for t in rollouts
    ]
