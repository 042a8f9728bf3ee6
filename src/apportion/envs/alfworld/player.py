"""The rules of ALFWorld's text games, without PDDL, planner or text grammar at play time: the same words, fast.

A state is a tuple and never changes, so it is its own snapshot and can be hashed:

    (place, held object or -1, open receptacles, objects of each receptacle, place of each object, features,
     (object, receptacle) pairs that were parted where receptacles share a place)

Quirks of the published game that are kept: an object is examined only while held; `look` names what one faces, and of
what lies there only things moved between receptacles of one place; receptacles can share a place; heating, cooling and
cleaning need no open door; a lamp once on stays on.

Source    arXiv:2010.03768; what the game says and admits was observed on the package `alfworld` (MIT), with which a
          differential test compares this player. No code of it is here.
"""

from __future__ import annotations

from apportion.envs.alfworld.problem import FEATURE_OF_KIND, Problem

State = tuple[
    int,
    int,
    frozenset[int],
    tuple[tuple[int, ...], ...],
    tuple[int, ...],
    frozenset[tuple[int, str]],
    frozenset[tuple[int, int]],
]
Move = tuple[str, int, int]  # what is done, to which receptacle or object, with which

TREATMENTS = (("clean", "sinkbasin"), ("heat", "microwave"), ("cool", "fridge"))
UNDONE_BY = {"heat": "k", "cool": "h"}
KNIVES = ("knife", "butterknife")
REFUSED = "Nothing happens."
NAMES_OF_FEATURES = (
    ("chs", "hot and clean sliced"), ("cks", "cool and clean sliced"), ("cs", "clean sliced"), ("hs", "hot sliced"),
    ("ks", "cool sliced"), ("ch", "hot and clean"), ("ck", "cool and clean"), ("h", "hot"), ("c", "clean"),
    ("k", "cold"),
)  # fmt: skip
HELP = "\nAvailable commands:\n" + "".join(
    f"  {usage:<34}{meaning}\n"
    for usage, meaning in (
        ("look:", "look around your current location"),
        ("inventory:", "check your current inventory"),
        ("go to (receptacle):", "move to a receptacle"),
        ("open (receptacle):", "open a receptacle"),
        ("close (receptacle):", "close a receptacle"),
        ("take (object) from (receptacle):", "take an object from a receptacle"),
        ("move (object) to (receptacle):  place an object in or on a receptacle", ""),  # out of line there too
        ("examine (something):", "examine a receptacle or an object"),
        ("use (object):", "use an object"),
        ("heat (object) with (receptacle):", "heat an object using a receptacle"),
        ("clean (object) with (receptacle):", "clean an object using a receptacle"),
        ("cool (object) with (receptacle):", "cool an object using a receptacle"),
        ("slice (object) with (object):", "slice an object using a sharp object"),
    )
)


class Player:
    """One game. All methods are pure functions of the state."""

    def __init__(self, problem: Problem) -> None:
        p = self.problem = problem
        self.start: State = (p.place, -1, p.opened, p.contents, p.obj_place, p.flags, frozenset())
        self._here: dict[int, tuple[int, ...]] = {}
        for r, place in enumerate(p.rec_place):
            self._here[place] = (*self._here.get(place, ()), r)
        general: dict[str, Move] = {word: (word, -1, -1) for word in ("help", "inventory", "look")}
        self._ways = {
            place: general
            | {f"go to {p.rec_name[r]}": ("go", r, -1) for r, to in enumerate(p.rec_place) if to != place}
            for place in {p.place, *p.rec_place}
        }
        self._features = {"clean": p.cleanable, "heat": p.heatable, "cool": p.coolable}
        able = self._features.get(p.kind)
        self._targets = frozenset(
            o for o, kind in enumerate(p.obj_type) if kind == p.target and (able is None or o in able)
        )
        self._goals = tuple(r for r, kind in enumerate(p.rec_type) if kind == p.goal_rec)
        self._lamps = frozenset(o for o, kind in enumerate(p.obj_type) if kind == p.lamp)
        self._wanted = FEATURE_OF_KIND.get(p.kind)
        self._needed = 2 if p.kind == "two" else 1

    def intro(self) -> str:
        """What is shown before the first command."""
        seen = listing([f"a {name}" for name in self.problem.rec_name])
        return (
            "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, "
            f"you see {seen}.\n\nYour task is to: {self.problem.task}."
        )

    def receptacles_here(self, state: State) -> tuple[int, ...]:
        """What can be reached from where the player stands."""
        return self._here.get(state[0], ())

    def is_shut(self, state: State, r: int) -> bool:
        """Whether the receptacle can be opened and is not open."""
        return r in self.problem.openable and r not in state[2]

    def commands(self, state: State) -> dict[str, Move]:
        """The admissible commands with what they do."""
        p = self.problem
        place, held, opened, contents, places, _, _ = state
        out = self._ways[place].copy()
        for r in self._here.get(place, ()):
            name, shut = p.rec_name[r], False
            out[f"examine {name}"] = ("look at", r, -1)
            if r in p.openable:
                shut = r not in opened
                word = "open" if shut else "close"
                out[f"{word} {name}"] = (word, r, -1)
            for o in contents[r]:
                if held < 0 and not shut and o in p.pickable:
                    out[f"take {p.obj_name[o]} from {name}"] = ("take", o, r)
                if o in p.toggleable:
                    out[f"use {p.obj_name[o]}"] = ("use", o, -1)
            if held >= 0:
                thing = p.obj_name[held]
                if not shut and (p.rec_type[r], p.obj_type[held]) in p.can:
                    out[f"move {thing} to {name}"] = ("move", held, r)
                for verb, device in TREATMENTS:
                    if p.rec_type[r] == device and held in self._features[verb]:
                        out[f"{verb} {thing} with {name}"] = (verb, held, r)
        if held >= 0:
            thing = p.obj_name[held]
            out[f"examine {thing}"] = ("look at held", held, -1)
            if p.obj_type[held] in KNIVES:
                for o in sorted(p.sliceable):
                    if places[o] == place:
                        out[f"slice {p.obj_name[o]} with {thing}"] = ("slice", o, held)
        return out

    def apply(self, state: State, move: Move) -> tuple[State, str]:
        """Carry out an admissible command; returns the new state and what the game says."""
        p = self.problem
        verb, first, second = move
        place, held, opened, contents, places, flags, parted = state
        if verb == "look":
            return state, self._look(state)
        if verb == "inventory":
            return state, f"You are carrying: a {p.obj_name[held]}." if held >= 0 else "You are not carrying anything."
        if verb == "help":
            return state, HELP
        if verb == "look at":
            return state, self.sight(state, first)
        if verb == "look at held":
            return state, self._examine(state, first)
        if verb == "go":
            state = (p.rec_place[first], *state[1:])
            return state, f"You arrive at {p.rec_name[first]}. {self.sight(state, first)}"
        if verb == "open":
            state = (place, held, opened | {first}, *state[3:])
            return state, f"You open the {p.rec_name[first]}. {self.sight(state, first)}"
        if verb == "close":
            return (place, held, opened - {first}, *state[3:]), f"You close the {p.rec_name[first]}."
        thing = p.obj_name[first]
        if verb == "take":
            inside = tuple(o for o in contents[second] if o != first)
            if places[first] == place:
                places = _put(places, first, -1)
            if len(self._here[place]) > 1:
                parted |= {(first, second)}
            state = (place, first, opened, _put(contents, second, inside), places, flags, parted)
            return state, f"You pick up the {thing} from the {p.rec_name[second]}."
        if verb == "move":
            inside = tuple(sorted({*contents[second], first}))
            places, parted = _put(places, first, place), parted - {(first, second)}
            state = (place, -1, opened, _put(contents, second, inside), places, flags, parted)
            return state, f"You move the {thing} to the {p.rec_name[second]}."
        if verb == "use":
            return (*state[:5], flags | {(first, "t")}, parted), f"You turn on the {thing}."
        if verb == "slice":
            return (
                *state[:5],
                flags | {(first, "s")},
                parted,
            ), f"You sliced the {thing} with the {p.obj_name[second]}."
        if verb in UNDONE_BY:
            flags -= {(first, UNDONE_BY[verb])}
        state = (*state[:5], flags | {(first, FEATURE_OF_KIND[verb])}, parted)
        return state, f"You {verb} the {thing} using the {p.rec_name[second]}."

    def won(self, state: State) -> bool:
        """Whether the task is done."""
        _, held, _, contents, _, flags, _ = state
        if self.problem.kind == "look":
            lit = (o for r in self.receptacles_here(state) for o in contents[r] if o in self._lamps)
            return held in self._targets and any((o, "t") in flags for o in lit)
        for r in self._goals:
            done = 0
            for o in contents[r]:
                done += o in self._targets and (self._wanted is None or (o, self._wanted) in flags)
            if done >= self._needed:
                return True
        return False

    def sight(self, state: State, r: int) -> str:
        """What is seen of a receptacle."""
        p = self.problem
        name = p.rec_name[r]
        if self.is_shut(state, r):
            return f"The {name} is closed."
        inside = listing([f"a {p.obj_name[o]}" for o in state[3][r]])
        return (
            f"The {name} is open. In it, you see {inside}." if r in p.openable else f"On the {name}, you see {inside}."
        )

    def _look(self, state: State) -> str:
        here = self.receptacles_here(state)
        if not here:
            return "You are in the middle of a room. Looking quickly around you, you see nothing."
        faced = listing([self.problem.rec_name[r] for r in here])
        beside = sorted({o for o, r in state[6] if state[4][o] == state[0] and r in here})
        seen = listing([f"a {self.problem.obj_name[o]}" for o in beside])
        return f"You are facing the {faced}. Next to it, you see {seen}."

    def _examine(self, state: State, o: int) -> str:
        p = self.problem
        name = p.obj_name[o]
        if o in p.vessels:
            inside = listing([f"a {p.obj_name[x]}" for x, vessel in p.in_vessel if vessel == o])
            return f"This is a normal {name}. In it, you see {inside}."
        has = {letter for thing, letter in state[5] if thing == o}
        for letters, words in NAMES_OF_FEATURES:
            if has.issuperset(letters):
                return f"This is a {words} {name}."
        if o in p.toggleable:
            return f"This {name} is {'on' if 't' in has else 'off'}."
        return f"This is a sliced {name}." if "s" in has else f"There's nothing special about {name}."


def listing(names: list[str]) -> str:
    """Names in a sentence, with a comma before the last "and" also of two."""
    if len(names) < 2:
        return names[0] if names else "nothing"
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def _put(values: tuple, at: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:at], value, *values[at + 1 :])
