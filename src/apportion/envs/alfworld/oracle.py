"""Shortest ways to the goal for who sees through closed doors: the expert of the household games."""

from __future__ import annotations

from itertools import permutations

from apportion.envs.alfworld.player import TREATMENTS, Player, State
from apportion.envs.alfworld.problem import FEATURE_OF_KIND

TRIED = 24  # choices of objects and receptacles that are worked out


def oracle(player: Player, state: State) -> list[str] | None:
    """The shortest of the ways tried; None where none of them wins."""
    best: list[str] | None = None
    for objects, goal in _choices(player, state):
        way = _Way(player, state)
        way.fetch(objects, goal)
        if way.wins and (best is None or len(way.wins) < len(best)):
            best = way.wins
    return best


def _choices(player: Player, state: State) -> list[tuple[tuple[int, ...], int]]:
    """Which objects to bring, in order, and where to."""
    p = player.problem
    held, contents = state[1], state[3]
    where = {o: r for r, inside in enumerate(contents) for o in inside}
    able = [
        o for o, kind in enumerate(p.obj_type) if kind == p.target and (o == held or (o in where and o in p.pickable))
    ]
    if p.kind == "look":
        lamps = [where[o] for o, kind in enumerate(p.obj_type) if kind == p.lamp and o in where]
        pairs: list[tuple[tuple[int, ...], int]] = [((o,), r) for r in lamps for o in able]
        return pairs[:TRIED]
    out: list[tuple[tuple[int, ...], int]] = []
    for goal in (r for r, kind in enumerate(p.rec_type) if kind == p.goal_rec):
        there = [o for o in able if o in contents[goal]]
        missing = 2 - len(there) if p.kind == "two" else 1
        chosen = [o for o in able if o not in contents[goal] or p.kind in FEATURE_OF_KIND]
        chosen.sort(key=lambda o: o != held)
        out += [(objects, goal) for objects in permutations(chosen, max(missing, 1))]
    return out[:TRIED]


class _Way:
    """A way under way: commands are played as they are added."""

    def __init__(self, player: Player, state: State) -> None:
        self.player, self.state, self.taken = player, state, list[str]()
        self.wins: list[str] = []  # the commands up to the first that won

    def do(self, command: str) -> bool:
        move = self.player.commands(self.state).get(command)
        if move is None:
            return False
        self.state, _ = self.player.apply(self.state, move)
        self.taken.append(command)
        if not self.wins and self.player.won(self.state):
            self.wins = list(self.taken)
        return True

    def reach(self, r: int, *, inside: bool = True) -> bool:
        """Stand at a receptacle, its door open if need be."""
        p = self.player.problem
        if p.rec_place[r] != self.state[0] and not self.do(f"go to {p.rec_name[r]}"):
            return False
        return not inside or not self.player.is_shut(self.state, r) or self.do(f"open {p.rec_name[r]}")

    def fetch(self, objects: tuple[int, ...], goal: int) -> bool:
        """Bring the objects to the goal, treated as asked; whether that could be done."""
        p = self.player.problem
        if not self.player.won(self.state) and self.state[1] >= 0 and self.state[1] not in objects and not self.drop():
            return False
        for o in objects:
            if not self.hold(o) or not self.treat(o):
                return False
            if p.kind == "look":
                lamp = next(x for x in self.state[3][goal] if p.obj_type[x] == p.lamp)
                if not self.reach(goal, inside=False):
                    return False
                if not self.player.won(self.state) and not self.do(f"use {p.obj_name[lamp]}"):
                    return False
            elif not (self.reach(goal) and self.do(f"move {p.obj_name[o]} to {p.rec_name[goal]}")):
                return False
        return True

    def hold(self, o: int) -> bool:
        """Have the object in hand."""
        p = self.player.problem
        if self.state[1] == o:
            return True
        r = next((r for r, inside in enumerate(self.state[3]) if o in inside), None)
        return r is not None and self.reach(r) and self.do(f"take {p.obj_name[o]} from {p.rec_name[r]}")

    def treat(self, o: int) -> bool:
        """Clean, heat or cool it, if that is asked and not done."""
        p = self.player.problem
        feature = FEATURE_OF_KIND.get(p.kind)
        if feature is None or (o, feature) in self.state[5]:
            return True
        device = dict(TREATMENTS)[p.kind]
        r = min((r for r, kind in enumerate(p.rec_type) if kind == device), key=self._far, default=None)
        return (
            r is not None and self.reach(r, inside=False) and self.do(f"{p.kind} {p.obj_name[o]} with {p.rec_name[r]}")
        )

    def drop(self) -> bool:
        """Put what is held, and not wanted, anywhere, near if possible."""
        p = self.player.problem
        thing = self.state[1]
        fitting = [r for r, kind in enumerate(p.rec_type) if (kind, p.obj_type[thing]) in p.can]
        r = min(fitting, key=lambda r: (self._far(r), self.player.is_shut(self.state, r)), default=None)
        return r is not None and self.reach(r) and self.do(f"move {p.obj_name[thing]} to {p.rec_name[r]}")

    def _far(self, r: int) -> bool:
        return self.player.problem.rec_place[r] != self.state[0]
