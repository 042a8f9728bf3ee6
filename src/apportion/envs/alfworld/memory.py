"""What a player has seen so far, as a value, and as a short text that stands for the history.

Task: put a hot apple in fridge. At countertop 1. Holding apple 1 (hot). On: desklamp 1.
Seen: countertop 1: egg 1; fridge 1: closed; microwave 1: nothing. Not seen: cabinet 1, drawer 1.
"""

from __future__ import annotations

from apportion.envs.alfworld.player import Move, Player, State

ADDRESSED = {"go": 0, "open": 0, "close": 0, "look at": 0, "take": 1, "move": 1, "clean": 1, "heat": 1, "cool": 1}
SHUT = (-1,)  # in place of what lies there

Memory = tuple[int, tuple[tuple[int, ...] | None, ...]]
"""The receptacle addressed last (-1: none), and what was seen in each when last looked at (None: never)."""

LETTERS = {"c": "clean", "h": "hot", "k": "cool", "s": "sliced", "t": "on"}


def nothing_seen(player: Player) -> Memory:
    """At the start."""
    return -1, (None,) * len(player.problem.rec_name)


def remember(player: Player, memory: Memory, state: State, move: Move) -> Memory:
    """After a command that led to this state."""
    which = ADDRESSED.get(move[0])
    if which is None:
        return memory
    r = (move[1], move[2])[which]
    sight = SHUT if player.is_shut(state, r) else state[3][r]
    return r, (*memory[1][:r], sight, *memory[1][r + 1 :])


def told(player: Player, memory: Memory, state: State) -> str:
    """The summary: task, where, what is held, what is on, what was seen."""
    p = player.problem
    at, seen = memory
    held = "nothing"
    if state[1] >= 0:
        has = ", ".join(LETTERS[letter] for o, letter in sorted(state[5]) if o == state[1])
        held = p.obj_name[state[1]] + (f" ({has})" if has else "")
    lit = ", ".join(p.obj_name[o] for o, letter in sorted(state[5]) if letter == "t")
    known = "; ".join(f"{p.rec_name[r]}: {_sight(player, sight)}" for r, sight in enumerate(seen) if sight is not None)
    rest = ", ".join(p.rec_name[r] for r, sight in enumerate(seen) if sight is None)
    place = p.rec_name[at] if at >= 0 else "the middle of the room"
    return (
        f"Task: {p.task}. At {place}. Holding {held}.{f' On: {lit}.' if lit else ''}\n"
        f"Seen: {known or 'nothing'}. Not seen: {rest or 'nothing'}."
    )


def _sight(player: Player, sight: tuple[int, ...]) -> str:
    if sight == SHUT:
        return "closed"
    return ", ".join(player.problem.obj_name[o] for o in sight) or "nothing"
