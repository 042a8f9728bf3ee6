"""An expert that knows no more than the player: it looks where it has not looked, likely places first.

Its actions can be imitated from what the player sees; the oracle's, who walks straight to a hidden thing, cannot.
"""

from __future__ import annotations

from apportion.envs.alfworld.memory import SHUT, Memory, remember
from apportion.envs.alfworld.player import TREATMENTS, Player, State
from apportion.envs.alfworld.problem import FEATURE_OF_KIND
from apportion.envs.alfworld.world import OPENABLE


def next_command(player: Player, memory: Memory, state: State) -> str | None:
    """What it does now; None when everything was seen and nothing helps."""
    p = player.problem
    seen, held = memory[1], state[1]
    if held >= 0 and (p.obj_type[held] != p.target or player.won(state)):
        return _drop(player, memory, state)
    if held < 0:
        found = _find(player, memory)
        if found is None:
            return _explore(player, memory)
        o, r = found
        return _at(player, state, r) or f"take {p.obj_name[o]} from {p.rec_name[r]}"
    if p.kind == "look":
        lamps = [(o, r) for r, inside in enumerate(seen) for o in _open(inside) if p.obj_type[o] == p.lamp]
        if not lamps:
            return _explore(player, memory)
        o, r = lamps[0]
        return _go(player, state, r) or f"use {p.obj_name[o]}"
    if p.kind in FEATURE_OF_KIND and (held, FEATURE_OF_KIND[p.kind]) not in state[5]:
        device = next((r for r, kind in enumerate(p.rec_type) if kind == dict(TREATMENTS)[p.kind]), None)
        if device is None:
            return None
        return _go(player, state, device) or f"{p.kind} {p.obj_name[held]} with {p.rec_name[device]}"
    goal = _goal(player, memory)
    return _at(player, state, goal) or f"move {p.obj_name[held]} to {p.rec_name[goal]}"


def plan(player: Player, memory: Memory, state: State, steps: int) -> list[str] | None:
    """Its commands from here until it wins or the steps are used up; None where it gives up."""
    out: list[str] = []
    while len(out) < steps:
        command = next_command(player, memory, state)
        move = player.commands(state).get(command or "")
        if command is None or move is None:
            return out or None
        state, _ = player.apply(state, move)
        memory = remember(player, memory, state, move)
        out.append(command)
        if player.won(state):
            break
    return out


def _open(inside: tuple[int, ...] | None) -> tuple[int, ...]:
    return () if inside is None or inside == SHUT else inside


def _goal(player: Player, memory: Memory) -> int:
    """Where to put the target: where one lies already, else the first of its type."""
    p = player.problem
    goals = [r for r, kind in enumerate(p.rec_type) if kind == p.goal_rec]
    return max(goals, key=lambda r: (sum(p.obj_type[o] == p.target for o in _open(memory[1][r])), -r))


def _find(player: Player, memory: Memory) -> tuple[int, int] | None:
    """A wanted thing that was seen, not yet where it belongs."""
    p = player.problem
    goal = _goal(player, memory) if p.goal_rec else -1
    for r, inside in enumerate(memory[1]):
        for o in _open(inside):
            if p.obj_type[o] == p.target and o in p.pickable and (r != goal or p.kind in FEATURE_OF_KIND):
                return o, r
    return None


def _explore(player: Player, memory: Memory) -> str | None:
    """To the next place that was not seen; a closed door is opened first."""
    p = player.problem
    at, seen = memory
    if at >= 0 and seen[at] == SHUT:
        return f"open {p.rec_name[at]}"
    left = [r for r, inside in enumerate(seen) if inside is None]
    if not left:
        return None
    likely = {r for r in left if (p.rec_type[r], p.target) in p.can}
    r = min(left, key=lambda r: (r not in likely, p.rec_type[r] in OPENABLE, p.rec_type[r], p.rec_name[r]))
    return f"examine {p.rec_name[r]}" if at >= 0 and p.rec_place[r] == p.rec_place[at] else f"go to {p.rec_name[r]}"


def _drop(player: Player, memory: Memory, state: State) -> str | None:
    p = player.problem
    fitting = [r for r, kind in enumerate(p.rec_type) if (kind, p.obj_type[state[1]]) in p.can]
    if not fitting:
        return None
    r = min(fitting, key=lambda r: (p.rec_place[r] != state[0], memory[1][r] == SHUT))
    return _at(player, state, r) or f"move {p.obj_name[state[1]]} to {p.rec_name[r]}"


def _go(player: Player, state: State, r: int) -> str | None:
    return None if player.problem.rec_place[r] == state[0] else f"go to {player.problem.rec_name[r]}"


def _at(player: Player, state: State, r: int) -> str | None:
    """The step towards standing at it with its door open; None when that is so."""
    way = _go(player, state, r)
    return way or (f"open {player.problem.rec_name[r]}" if player.is_shut(state, r) else None)
