"""One household game as data: what is where, what can be done with it, what is asked for.

Read from the published format, a JSON object with the PDDL problem (``pddl_problem``) and a text grammar that holds the
sentence of the task (``grammar``). Ids such as ``apple_bar_plus_01…`` become the names the game shows, ``apple 2``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apportion.errors import FormatError

Facts = dict[str, list[tuple[str, ...]]]

KINDS = ("place", "look", "clean", "heat", "cool", "two")
"""The six kinds of task, short: pick and place, look at in light, clean / heat / cool then place, place two."""

FEATURES = {"isclean": "c", "ishot": "h", "iscool": "k", "istoggled": "t", "issliced": "s"}
FEATURE_OF_KIND = {"clean": "c", "heat": "h", "cool": "k"}


@dataclass(frozen=True, eq=False)
class Problem:
    """A game. Receptacles are numbered 0…R-1 and objects 0…O-1, both in the order of their ids.

    rec_name, rec_type, rec_place   of each receptacle: shown name, type, number of the place one stands at to reach it
    openable                        receptacles that open and close
    obj_name, obj_type              of each object
    can                             (receptacle type, object type) pairs that a move is allowed for
    pickable, cleanable, heatable, coolable, toggleable, sliceable, vessels     sets of objects
    in_vessel                       (object, vessel) pairs at the start
    contents, opened, place, flags  the start: objects of each receptacle, open receptacles, where the player stands,
                                    (object, feature letter) pairs
    obj_place                       place of each object, -1 if none
    kind, target, goal_rec, lamp    what is asked for: one of `KINDS`, an object type, a receptacle type, a lamp type
    task                            the sentence
    """

    rec_name: tuple[str, ...]
    rec_type: tuple[str, ...]
    rec_place: tuple[int, ...]
    openable: frozenset[int]
    obj_name: tuple[str, ...]
    obj_type: tuple[str, ...]
    can: frozenset[tuple[str, str]]
    pickable: frozenset[int]
    cleanable: frozenset[int]
    heatable: frozenset[int]
    coolable: frozenset[int]
    toggleable: frozenset[int]
    sliceable: frozenset[int]
    vessels: frozenset[int]
    in_vessel: tuple[tuple[int, int], ...]
    contents: tuple[tuple[int, ...], ...]
    opened: frozenset[int]
    place: int
    flags: frozenset[tuple[int, str]]
    obj_place: tuple[int, ...]
    kind: str
    target: str
    goal_rec: str
    lamp: str
    task: str


def read_problem(data: Mapping[str, Any], at: str) -> Problem:
    """A game in the published format.

    Raises:
        FormatError: a part is missing, or the task is none of the six kinds.
    """
    try:
        text = data["pddl_problem"].lower()
        init, goal = text.split("(:init", 1)[1].split("(:goal", 1)
        sentence = re.search(r"Your task is to: (.*?)\.?\"", data["grammar"])
        task = sentence[1].rstrip(".") if sentence else ""
    except (KeyError, IndexError, AttributeError, TypeError):
        raise FormatError(f"{at}: no game can be read; it needs the texts pddl_problem and grammar") from None
    facts = (tuple(found.split()) for found in re.findall(r"\(([^()]+)\)", init))
    return problem_of(facts, goal, task, at)


def problem_of(facts: Iterable[tuple[str, ...]], goal: str, task: str, at: str) -> Problem:
    """A game from its lower-case facts and the goal's PDDL.

    Raises:
        FormatError: facts contradict one another, or the task is none of the six kinds.
    """
    table: Facts = {}
    for predicate, *arguments in facts:
        table.setdefault(predicate, []).append(tuple(arguments))
    kind, target, goal_rec, lamp = _goal(goal.lower(), at)
    try:
        return _problem(table, kind, target, goal_rec, lamp, task)
    except (KeyError, IndexError, ValueError) as error:
        raise FormatError(
            f"{at}: the game's facts do not fit together (about {error}); give a published game"
        ) from None


def _problem(table: Facts, kind: str, target: str, goal_rec: str, lamp: str, task: str) -> Problem:
    rec_type = {r: kind_.removesuffix("type") for r, kind_ in table["receptacletype"]}
    obj_type = {o: kind_.removesuffix("type") for o, kind_ in table.get("objecttype", [])}
    place_of = {r: place for r, place in table["receptacleatlocation"]}  # noqa: C416 (two of two, checked)
    obj_place = {o: place for o, place in table.get("objectatlocation", [])}  # noqa: C416
    recs, objs = sorted(rec_type), sorted(obj_type)
    rec_at, obj_at = {r: i for i, r in enumerate(recs)}, {o: i for i, o in enumerate(objs)}
    start = table["atlocation"][0][1]
    places = {p: i for i, p in enumerate(sorted({*place_of.values(), *obj_place.values(), start}))}
    names = shown_names(sorted({*recs, *objs}))
    contents: list[set[int]] = [set() for _ in recs]
    for o, r in table.get("inreceptacle", []):
        contents[rec_at[r]].add(obj_at[o])

    def having(predicate: str) -> frozenset[int]:
        return frozenset(obj_at[o[0]] for o in table.get(predicate, []) if o[0] in obj_at)

    return Problem(
        rec_name=tuple(names[r] for r in recs),
        rec_type=tuple(rec_type[r] for r in recs),
        rec_place=tuple(places[place_of[r]] for r in recs),
        openable=frozenset(rec_at[r[0]] for r in table.get("openable", [])),
        obj_name=tuple(names[o] for o in objs),
        obj_type=tuple(obj_type[o] for o in objs),
        can=frozenset((r.removesuffix("type"), o.removesuffix("type")) for r, o in table.get("cancontain", [])),
        pickable=having("pickupable"),
        cleanable=having("cleanable"),
        heatable=having("heatable"),
        coolable=having("coolable"),
        toggleable=having("toggleable"),
        sliceable=having("sliceable"),
        vessels=having("isreceptacleobject"),
        in_vessel=tuple(sorted((obj_at[o], obj_at[v]) for o, v in table.get("inreceptacleobject", []))),
        contents=tuple(tuple(sorted(inside)) for inside in contents),
        opened=frozenset(rec_at[r[0]] for r in table.get("opened", [])),
        place=places[start],
        flags=frozenset((o, letter) for predicate, letter in FEATURES.items() for o in having(predicate)),
        obj_place=tuple(places[obj_place[o]] if o in obj_place else -1 for o in objs),
        kind=kind,
        target=target,
        goal_rec=goal_rec,
        lamp=lamp,
        task=task,
    )


def shown_names(ids: list[str]) -> dict[str, str]:
    """The name of each sorted id: its kind and a number, counted down within the kind."""

    def kind(id_: str) -> str:
        return id_.split("_bar_", 1)[0] + ("basin" if "basin" in id_ else "")

    left: dict[str, int] = {}
    for id_ in ids:
        left[kind(id_)] = left.get(kind(id_), 0) + 1
    out = {}
    for id_ in ids:
        out[id_] = f"{kind(id_)} {left[kind(id_)]}"
        left[kind(id_)] -= 1
    return out


def _goal(goal: str, at: str) -> tuple[str, str, str, str]:
    objects = re.findall(r"\(objecttype \?(\w+) (\w+)type\)", goal)
    receptacles = re.findall(r"\(receptacletype \?\w+ (\w+)type\)", goal)
    if not objects or "issliced" in goal or "inreceptacleobject" in goal:
        raise FormatError(f"{at}: the task is none of {', '.join(KINDS)}; tasks with slices or vessels are not played")
    if "istoggled" in goal:
        by_variable = dict(objects)
        if not {"o", "ot"} <= set(by_variable):
            raise FormatError(f"{at}: the task has a lamp and no object to look at; give a published game")
        return "look", by_variable["o"], "", by_variable["ot"]
    if not receptacles:
        raise FormatError(f"{at}: the task does not say where to put the {objects[0][1]}; give a published game")
    kind = next(
        (
            k
            for word, k in (("isclean", "clean"), ("ishot", "heat"), ("iscool", "cool"), ("?o2", "two"))
            if word in goal
        ),
        "place",
    )
    return kind, objects[0][1], receptacles[0], ""
