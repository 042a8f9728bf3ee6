"""New household games of all six kinds, drawn from a seed, in the published format; small ones can be enumerated."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from apportion.envs.alfworld.oracle import oracle
from apportion.envs.alfworld.player import TREATMENTS, Player
from apportion.envs.alfworld.problem import FEATURE_OF_KIND, KINDS, read_problem
from apportion.envs.alfworld.world import LAMPS, OPENABLE, ROOMS, SENTENCES, THINGS, takers
from apportion.envs.splits import split_of
from apportion.errors import ConfigError

FEATURE_WORDS = {"c": "cleanable", "h": "heatable", "k": "coolable", "s": "sliceable", "v": "isReceptacleObject"}
TREATED = {
    "place": "",
    "clean": "(cleanable ?o) (isClean ?o) ",
    "heat": "(heatable ?o) (isHot ?o) ",
    "cool": "(coolable ?o) (isCool ?o) ",
}
ONE = (
    "(:goal (and (exists (?r - receptacle) (exists (?o - object) (and {treated}(inReceptacle ?o ?r) "
    "(objectType ?o {thing}Type) (receptacleType ?r {goal}Type))))))"
)
TWO = (
    "(:goal (and (exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 {thing}Type) "
    "(receptacleType ?r {goal}Type) (inReceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2)) "
    "(objectType ?o2 {thing}Type) (receptacleType ?r {goal}Type) (inReceptacle ?o2 ?r))))))))"
)
LOOK = (
    "(:goal (and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot {lamp}Type) "
    "(toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r))) "
    "(exists (?o - object ?a - agent) (and (objectType ?o {thing}Type) (holds ?a ?o)))))"
)
SHARED_PLACE = 0.1  # share of receptacles that stand where another does
TRIES = 1000


class Draw(NamedTuple):
    """What a game is about."""

    kind: str
    room: str
    thing: str
    goal: str
    lamp: str


def generate_game(
    seed: int | str,
    *,
    kinds: tuple[str, ...] = KINDS,
    split: str = "all",
    receptacles: int = 10,
    objects: int = 8,
) -> dict[str, Any]:
    """One game as the published files hold it, with the oracle's walkthrough.

    Args:
        seed: fixes the game.
        kinds: of task to draw from, see `problem.KINDS`.
        split: "all", or the split that the task (kind, thing, where to) belongs to.
        receptacles, objects: how many there are, if the room has room for so many.

    Raises:
        ConfigError: too few for any task.
    """
    rng = Random(f"alfworld/{seed}")
    if receptacles < 3 or objects < 2:
        raise ConfigError(f"alfworld: {receptacles} receptacles and {objects} objects; at least 3 and 2 make a game")
    for _ in range(TRIES):
        draw = _draw(rng, rng.choice(kinds))
        if draw is None or split not in ("all", split_of(f"{draw.kind} {draw.thing} {draw.goal or draw.lamp}")):
            continue
        data = _build(rng, draw, receptacles, objects)
        player = Player(read_problem(data, f"generated game {seed}"))
        walkthrough = None if player.won(player.start) else oracle(player, player.start)
        if walkthrough:
            return data | {"solvable": True, "walkthrough": walkthrough}
    raise ConfigError(f"alfworld: no game of split {split!r} and kinds {', '.join(kinds)} was found; widen the options")


def _draw(rng: Random, kind: str) -> Draw | None:
    feature, device = FEATURE_OF_KIND.get(kind, ""), dict(TREATMENTS).get(kind, "")
    rooms = [room for room in ROOMS if (not device or device in ROOMS[room])]
    if kind == "look":
        rooms = ["bedroom", "livingroom"]
    room = rng.choice(rooms)
    things = [t for t in THINGS if feature in THINGS[t][0] and len(set(takers(t)) & set(ROOMS[room])) > 1]
    if not things:
        return None
    thing = rng.choice(things)
    goals = [r for r in takers(thing) if r in ROOMS[room]]
    if kind == "look":
        lamps = [lamp for lamp, on in LAMPS.items() if set(on) & set(ROOMS[room])]
        return Draw(kind, room, thing, "", rng.choice(lamps))
    return Draw(kind, room, thing, rng.choice(goals), "")


def _build(rng: Random, draw: Draw, receptacles: int, objects: int) -> dict[str, Any]:
    kinds_of_room = ROOMS[draw.room]
    source = rng.choice([r for r in takers(draw.thing) if r in kinds_of_room and r != draw.goal])
    needed = [source, draw.goal, dict(TREATMENTS).get(draw.kind, "")]
    if draw.lamp:
        needed.append(rng.choice([r for r in LAMPS[draw.lamp] if r in kinds_of_room]))
    types = [r for r in dict.fromkeys(needed) if r]
    spare = [r for r, most in kinds_of_room.items() for _ in range(most - (r in types))]
    rng.shuffle(spare)
    types += spare[: max(receptacles - len(types), 0)]
    rng.shuffle(types)
    recs = [(_identifier(kind, k), kind) for k, kind in enumerate(types)]
    places: list[str] = []
    for k in range(len(recs)):
        shared = places and rng.random() < SHARED_PLACE
        places.append(rng.choice(places) if shared else f"loc_bar_{k + 1}")
    put = [(draw.thing, [source])] * (2 if draw.kind == "two" else 1)
    if draw.lamp:
        put.append((draw.lamp, [r for r in LAMPS[draw.lamp] if r in types]))
    others = [t for t in THINGS if t != draw.thing and set(takers(t)) & set(types)]
    while others and len(put) < objects:
        thing = rng.choice(others)
        put.append((thing, [r for r in takers(thing) if r in types]))
    things = []
    for k, (thing, where) in enumerate(put):
        at = rng.choice([i for i, kind in enumerate(types) if kind in where])
        things.append((_identifier(thing, k), thing, at))
    return {
        "pddl_problem": _pddl(recs, places, things, draw),
        "grammar": f'"Your task is to: {rng.choice(SENTENCES[draw.kind]).format(**draw._asdict())}"',
    }


def _identifier(kind: str, k: int) -> str:
    """An id in the published style: basins carry their kind at the end."""
    return f"{kind.removesuffix('basin')}_bar_{k:03d}" + (f"_bar_{kind}" if kind.endswith("basin") else "")


def _pddl(recs: list[tuple[str, str]], places: list[str], things: list[tuple[str, str, int]], draw: Draw) -> str:
    rec_types, obj_types = sorted({kind for _, kind in recs}), sorted({kind for _, kind, _ in things})
    facts = [f"receptacleType {r} {kind}Type" for r, kind in recs]
    facts += [f"objectType {o} {kind}Type" for o, kind, _ in things]
    facts += [f"canContain {r}Type {o}Type" for r in rec_types for o in obj_types if o in THINGS and r in takers(o)]
    facts += [f"pickupable {o}" for o, kind, _ in things if kind in THINGS]
    facts += [f"toggleable {o}" for o, kind, _ in things if kind in LAMPS]
    for letter, predicate in FEATURE_WORDS.items():
        facts += [f"{predicate} {o}" for o, kind, _ in things if letter in THINGS.get(kind, ("",))[0]]
    facts += [f"openable {r}" for r, kind in recs if kind in OPENABLE]
    facts += ["atLocation agent1 loc_bar_0"]
    facts += [f"inReceptacle {o} {recs[at][0]}" for o, _, at in things]
    facts += [f"receptacleAtLocation {r} {place}" for (r, _), place in zip(recs, places, strict=True)]
    facts += [f"objectAtLocation {o} {places[at]}" for o, _, at in things]
    declared = ["agent1 - agent", "loc_bar_0 - location", *(f"{place} - location" for place in sorted(set(places)))]
    declared += [f"{kind}Type - rtype" for kind in rec_types] + [f"{kind}Type - otype" for kind in obj_types]
    declared += [f"{r} - receptacle" for r, _ in recs] + [f"{o} - object" for o, _, _ in things]
    goal = {"look": LOOK, "two": TWO}.get(draw.kind) or ONE.replace("{treated}", TREATED[draw.kind])
    listed = "\n".join(f"({fact})" for fact in facts)
    head = "(define (problem generated)\n(:domain alfred)\n(:objects\n" + "\n".join(declared)
    return f"{head}\n)\n(:init\n{listed}\n)\n{goal.format(thing=draw.thing, goal=draw.goal, lamp=draw.lamp)}\n)"
