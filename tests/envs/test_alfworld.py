import json
import time
from collections import Counter
from random import Random

import numpy as np
import pytest

from apportion.envs import make, tabulate
from apportion.envs.alfworld.games import PUBLISHED, published_games
from apportion.envs.alfworld.generate import generate_game
from apportion.envs.alfworld.memory import nothing_seen, remember, told
from apportion.envs.alfworld.oracle import oracle
from apportion.envs.alfworld.player import Player
from apportion.envs.alfworld.problem import KINDS, read_problem, shown_names
from apportion.envs.alfworld.rules import Household
from apportion.envs.alfworld.world import OPENABLE, ROOMS, THINGS, takers
from apportion.envs.table import best_actions, optimal_values
from apportion.errors import ConfigError, FormatError

# A kitchen in the published format, by hand. The microwave and the fridge share a place; the egg starts cool.
FACTS = """
receptacletype countertop_bar_1 countertoptype | receptacletype fridge_bar_1 fridgetype
receptacletype microwave_bar_1 microwavetype | receptacletype sink_bar_1_bar_sinkbasin sinkbasintype
receptacleatlocation countertop_bar_1 loc_bar_1 | receptacleatlocation fridge_bar_1 loc_bar_2
receptacleatlocation microwave_bar_1 loc_bar_2 | receptacleatlocation sink_bar_1_bar_sinkbasin loc_bar_3
objecttype apple_bar_1 appletype | objecttype egg_bar_1 eggtype | objecttype egg_bar_2 eggtype
objecttype knife_bar_1 knifetype | objecttype desklamp_bar_1 desklamptype | objecttype pan_bar_1 pantype
inreceptacle apple_bar_1 countertop_bar_1 | inreceptacle egg_bar_1 fridge_bar_1
inreceptacle egg_bar_2 countertop_bar_1
inreceptacle knife_bar_1 countertop_bar_1 | inreceptacle desklamp_bar_1 countertop_bar_1
inreceptacle pan_bar_1 countertop_bar_1 | inreceptacleobject egg_bar_2 pan_bar_1
objectatlocation apple_bar_1 loc_bar_1 | objectatlocation egg_bar_1 loc_bar_2
objectatlocation egg_bar_2 loc_bar_1 | objectatlocation knife_bar_1 loc_bar_1
objectatlocation desklamp_bar_1 loc_bar_1 | objectatlocation pan_bar_1 loc_bar_1
cancontain countertoptype eggtype | cancontain fridgetype appletype | cancontain microwavetype appletype
cancontain countertoptype appletype | cancontain countertoptype knifetype
pickupable apple_bar_1 | pickupable egg_bar_1 | pickupable egg_bar_2 | pickupable knife_bar_1 | pickupable pan_bar_1
isreceptacleobject pan_bar_1 | toggleable desklamp_bar_1 | iscool egg_bar_1
openable fridge_bar_1 | openable microwave_bar_1 | cleanable apple_bar_1 | cleanable knife_bar_1
heatable apple_bar_1 | coolable apple_bar_1 | coolable egg_bar_1 | coolable egg_bar_2 | sliceable apple_bar_1
atlocation agent1 loc_bar_0
"""
HEAT = "(exists (?o) (and (heatable ?o) (objectType ?o AppleType) (receptacleType ?r FridgeType) (isHot ?o)))"


def kitchen(goal=HEAT, facts=FACTS):
    listed = "".join(f"({fact.strip()})" for line in facts.strip().splitlines() for fact in line.split("|"))
    return {"pddl_problem": f"(define (:init {listed}) (:goal {goal}))", "grammar": '"Your task is to: heat it."'}


def play(player, *commands):
    """What is said to each command, and the last state."""
    state, said = player.start, []
    for command in commands:
        state, text = player.apply(state, player.commands(state)[command])
        said.append(text)
    return said, state


@pytest.fixture
def player():
    return Player(read_problem(kitchen(), "kitchen"))


def test_a_played_game(player):
    assert player.intro() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
        "a countertop 1, a fridge 1, a microwave 1, and a sinkbasin 1.\n\nYour task is to: heat it."
    )
    said, state = play(
        player,
        "look", "go to countertop 1", "take apple 1 from countertop 1", "inventory", "go to microwave 1",
        "heat apple 1 with microwave 1", "examine apple 1", "open fridge 1", "move apple 1 to fridge 1",
    )  # fmt: skip
    assert said == [
        "You are in the middle of a room. Looking quickly around you, you see nothing.",
        "You arrive at countertop 1. On the countertop 1, you see a apple 1, a desklamp 1, a egg 1, a knife 1, "
        "and a pan 1.",
        "You pick up the apple 1 from the countertop 1.",
        "You are carrying: a apple 1.",
        "You arrive at microwave 1. The microwave 1 is closed.",
        "You heat the apple 1 using the microwave 1.",
        "This is a hot apple 1.",
        "You open the fridge 1. The fridge 1 is open. In it, you see a egg 2.",
        "You move the apple 1 to the fridge 1.",
    ]
    assert player.won(state)


def test_what_is_admissible(player):
    general = {"help", "inventory", "look"}
    assert set(player.commands(player.start)) == general | {
        "go to countertop 1", "go to fridge 1", "go to microwave 1", "go to sinkbasin 1",
    }  # fmt: skip
    _, state = play(player, "go to fridge 1")
    assert set(player.commands(state)) == general | {
        "go to countertop 1", "go to sinkbasin 1", "examine fridge 1", "examine microwave 1", "open fridge 1",
        "open microwave 1",
    }  # fmt: skip
    _, state = play(player, "go to countertop 1", "take knife 1 from countertop 1")
    assert set(player.commands(state)) == general | {
        "go to fridge 1", "go to microwave 1", "go to sinkbasin 1", "examine countertop 1", "examine knife 1",
        "move knife 1 to countertop 1", "slice apple 1 with knife 1", "use desklamp 1",
    }  # fmt: skip


def test_heating_and_cooling_undo_one_another(player):
    way = ["go to countertop 1", "take apple 1 from countertop 1", "go to fridge 1", "heat apple 1 with microwave 1"]
    said, _ = play(player, *way, "cool apple 1 with fridge 1", "examine apple 1")
    assert said[-1] == "This is a cold apple 1."
    clean = ["go to sinkbasin 1", "clean apple 1 with sinkbasin 1", "examine apple 1"]
    assert play(player, *way, *clean)[0][-1] == "This is a hot and clean apple 1."


def test_features_of_the_start_count():
    cool = "(and (coolable ?o) (objectType ?o EggType) (receptacleType ?r CountertopType) (isCool ?o))"
    player = Player(read_problem(kitchen(cool), "x"))
    way = ["go to fridge 1", "open fridge 1", "take egg 2 from fridge 1", "examine egg 2", "go to countertop 1"]
    said, state = play(player, *way, "move egg 2 to countertop 1")
    assert said[3] == "This is a cold egg 2."
    assert player.won(state)
    assert oracle(player, player.start) == [*way[:3], way[4], "move egg 2 to countertop 1"]


def test_vessels_and_lamps(player):
    assert play(player, "go to countertop 1", "take pan 1 from countertop 1", "examine pan 1")[0][-1] == (
        "This is a normal pan 1. In it, you see a egg 1."
    )
    look = "(and (objectType ?ot DeskLampType) (isToggled ?ot)) (and (objectType ?o AppleType))"
    player = Player(read_problem(kitchen(look), "x"))
    said, state = play(player, "go to countertop 1", "use desklamp 1", "take apple 1 from countertop 1")
    assert said[1] == "You turn on the desklamp 1."
    assert player.won(state)
    state, _ = player.apply(state, player.commands(state)["go to fridge 1"])
    assert not player.won(state)  # away from the lamp


def test_names_count_down_and_basins_are_their_own_kind():
    ids = ["a_bar_1", "a_bar_2", "sink_bar_1", "sink_bar_1_bar_sinkbasin", "sink_bar_2_bar_sinkbasin"]
    assert list(shown_names(ids).values()) == ["a 2", "a 1", "sink 1", "sinkbasin 2", "sinkbasin 1"]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({}, "x: no game can be read; it needs the texts pddl_problem and grammar"),
        ({"pddl_problem": "nothing", "grammar": ""}, "x: no game can be read"),
        (kitchen("(isSliced ?o) (objectType ?o AppleType)"), "tasks with slices or vessels are not played"),
        (kitchen("(objectType ?o AppleType)"), "the task does not say where to put the apple"),
        (kitchen("(isToggled ?ot) (objectType ?o AppleType)"), "the task has a lamp and no object to look at"),
        (kitchen(facts="receptacletype a b"), r"facts do not fit together \(about 'receptacleatlocation'\)"),
        (kitchen(facts=FACTS.replace("inreceptacle egg_bar_1", "inreceptacle egg_bar_9")), "egg_bar_9"),
    ],
)
def test_what_cannot_be_read_is_told(data, says):
    with pytest.raises(FormatError, match=says):
        read_problem(data, "x")


# generated games


def test_generated_games_of_all_kinds_are_won_by_their_walkthrough():
    kinds = Counter()
    for seed in range(120):
        data = generate_game(seed)
        player = Player(read_problem(data, "x"))
        kinds[player.problem.kind] += 1
        assert not player.won(player.start)
        *_, state = play(player, *data["walkthrough"])
        assert player.won(state)
    assert set(kinds) == set(KINDS)


def test_the_world_is_consistent():
    known = {kind for room in ROOMS.values() for kind in room}
    assert set(OPENABLE) <= known
    for thing in THINGS:
        assert set(takers(thing)) <= known, thing


def test_splits_have_different_tasks():
    tasks = {}
    for split in ("train", "valid", "test"):
        for seed in range(40):
            p = read_problem(generate_game(seed, split=split), "x")
            assert tasks.setdefault((p.kind, p.target, p.goal_rec or p.lamp), split) == split


@pytest.mark.parametrize("advice", ["oracle", "explorer"])
def test_experts_win_generated_games(advice):
    env, won = make("alfworld", advice=advice), 0
    for seed in range(60):
        env.reset(seed=seed)
        *_, info = [env.step(action) for action in env.expert()][-1]
        won += info["success"]
    assert won == 60


def test_the_explorer_does_not_know_what_it_has_not_seen():
    """What lies in two unseen places is swapped: the same command; once seen, another."""
    from apportion.envs.alfworld.explorer import next_command

    player = Player(read_problem(kitchen(), "x"))
    counter, fridge, *rest = player.start[3]
    swapped = (*player.start[:3], (fridge, counter, *rest), *player.start[4:])
    commands = []
    for state in (player.start, swapped):
        memory = nothing_seen(player)
        commands.append([next_command(player, memory, state)])
        move = player.commands(state)["go to countertop 1"]
        state, _ = player.apply(state, move)
        commands[-1].append(next_command(player, remember(player, memory, state, move), state))
    assert commands[0][0] == commands[1][0]
    assert commands[0][1] == "take apple 1 from countertop 1" != commands[1][1]


def test_the_oracle_helps_from_anywhere():
    rng, asked = Random(0), 0
    for seed in range(40):
        player = Player(read_problem(generate_game(seed), "x"))
        state = player.start
        for _ in range(25):
            commands = player.commands(state)
            state, _ = player.apply(
                state, commands[rng.choice([c for c in commands if "go to" not in c or rng.random() < 0.2] or ["look"])]
            )
            if player.won(state):
                break
        else:
            way = oracle(player, state)
            assert way is not None
            for command in way:
                state, _ = player.apply(state, player.commands(state)[command])
            assert player.won(state)
            asked += 1
    assert asked > 25


@pytest.mark.parametrize("seed", range(6))
def test_small_households_are_enumerated_and_the_oracle_is_optimal_there(seed):
    rules = Household(seed=seed, kinds=(KINDS[seed],), receptacles=3, objects=2)
    table = tabulate(rules)
    value_HX, _ = optimal_values(table)
    assert value_HX[0] @ table.start_X == pytest.approx(1.0)
    best_HX, x, steps = best_actions(table), table.index[rules.player.start], 0
    while True:
        slot = int(best_HX[steps, x])
        steps += 1
        done = table.next_M[np.flatnonzero(table.slot_of_M == slot)[0]]
        if done == len(table.states):
            break
        x = int(done)
    assert steps == len(oracle(rules.player, rules.player.start))
    assert len(table.states) < 3000


# published games


def published_folder(tmp_path, games=6):
    root = tmp_path / "json_2.1.1" / "valid_seen"
    folders = ["pick_and_place_simple", "look_at_obj_in_light", "pick_two_obj_and_place"]
    folders += [f"pick_{treat}_then_place_in_recep" for treat in ("clean", "heat", "cool")]
    for number in range(games):
        kind = ("place", "look", "two", "clean", "heat", "cool")[number % 6]
        data = generate_game(number, kinds=(kind,))
        where = root / f"{folders[number % 6]}-X-{number}" / "trial_1"
        where.mkdir(parents=True)
        (where / "game.tw-pddl").write_text(json.dumps(data))
    for left_out in (
        "pick_and_place_with_movable_recep-X/trial_1",
        "pick_heat_then_place_in_recep-AppleSliced-X/trial_1",
    ):
        (root / left_out).mkdir(parents=True)
        (root / left_out / "game.tw-pddl").write_text("{}")
    unsolvable = root / "pick_and_place_simple-Y" / "trial_1"
    unsolvable.mkdir(parents=True)
    (unsolvable / "game.tw-pddl").write_text(json.dumps(generate_game(1) | {"solvable": False}))
    return tmp_path


def test_the_downloaded_folder_is_read(tmp_path, monkeypatch):
    folder = published_folder(tmp_path)
    env = make("alfworld", games="published", split="valid_seen", data=str(folder))
    assert env.tasks == 6
    names = set()
    for seed in range(6):
        env.reset(seed=seed)
        names.add(env.game)
        assert [env.step(action) for action in env.expert()][-1][4]["success"]
    assert len(names) == 6
    monkeypatch.setenv("ALFWORLD_DATA", str(folder))
    assert make("alfworld", games="published", split="valid_seen", kinds="heat, cool").tasks == 2
    with pytest.raises(ConfigError, match=r"holds no game of split 'train'; it should hold json_2\.1\.1/train"):
        make("alfworld", games="published")
    broken = folder / "json_2.1.1" / "valid_seen" / "pick_and_place_simple-Z" / "t"
    broken.mkdir(parents=True)
    (broken / "game.tw-pddl").write_text("{")
    published_games.cache_clear()
    with pytest.raises(FormatError, match=r"game\.tw-pddl: cannot be read"):
        make("alfworld", games="published", split="valid_seen")


def test_all_published_walkthroughs_win(data_root):
    kinds = Counter()
    for split in ("valid_seen", "valid_unseen"):
        for game in published_games(data_root / "alfworld", split):
            player = Player(game.problem())
            *_, state = play(player, *game.walkthrough)
            assert player.won(state), game.name
            assert player.problem.kind == game.kind
            kinds[split] += 1
    assert kinds == {"valid_seen": 140, "valid_unseen": 134}


@pytest.mark.slow
@pytest.mark.parametrize("split", PUBLISHED)
def test_the_oracle_wins_every_published_game(split, data_root):
    env = make("alfworld", games="published", split=split, data=str(data_root / "alfworld"))
    for seed in range(env.tasks):
        env.reset(seed=seed)
        assert [env.step(action) for action in env.expert()][-1][4]["success"], env.game


def test_report_steps_per_second(data_root, record_property):
    players = [Player(game.problem()) for game in published_games(data_root / "alfworld", "valid_seen")[::7]]
    rng, steps, start = Random(0), 0, time.process_time()
    for player in players:
        state = player.start
        for _ in range(50):
            moves = player.commands(state)
            state, _ = player.apply(state, moves[rng.choice(list(moves))])
            player.won(state)
            steps += 1
    rate = steps / (time.process_time() - start)
    record_property("reported", f"ALFWorld: {rate:,.0f} random steps per CPU-second with the admissible list")


# the environment


def test_the_summary_tells_what_was_seen_and_no_more(player):
    memory, state = nothing_seen(player), player.start
    assert told(player, memory, state) == (
        "Task: heat it. At the middle of the room. Holding nothing.\n"
        "Seen: nothing. Not seen: countertop 1, fridge 1, microwave 1, sinkbasin 1."
    )
    for command in ("go to countertop 1", "use desklamp 1", "take knife 1 from countertop 1", "go to fridge 1"):
        move = player.commands(state)[command]
        state, _ = player.apply(state, move)
        memory = remember(player, memory, state, move)
    assert told(player, memory, state) == (
        "Task: heat it. At fridge 1. Holding knife 1. On: desklamp 1.\n"
        "Seen: countertop 1: apple 1, desklamp 1, egg 1, pan 1; fridge 1: closed. Not seen: microwave 1, sinkbasin 1."
    )


def test_messages_are_the_games_own():
    env = make("alfworld", show="message", mode="text")
    text, _ = env.reset(seed=0)
    assert text.startswith("-= Welcome to TextWorld, ALFRED! =-")
    assert env.spec.reports
    first = env.step("inventory")[0]
    key = env.state_key(by="state")
    refused, _, _, _, info = env.step("put it on")
    assert (first, refused, info["invalid"]) == ("You are not carrying anything.", "Nothing happens.", True)
    assert env.state_key(by="state") == key
    here = env.snapshot()
    env.step("look")
    assert env.restore(here) == "Nothing happens." == env.restore(here.portable())


def test_equal_messages_hide_different_states():
    env, states = make("alfworld", show="message"), {}
    rng = Random(1)
    for seed in range(8):
        env.reset(seed=seed % 2)
        for _ in range(29):
            text, *_ = env.step(rng.choice(env.actions()))
            states.setdefault(text, set()).add(env.state_key(by="state"))
    assert sum(len(keys) > 1 for keys in states.values()) > 5
    assert not env.spec.full_state


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"games": "mine"}, "games is 'mine'; it takes generated or published"),
        ({"show": "all"}, "show is 'all'; it takes summary or message"),
        ({"advice": "none"}, "advice is 'none'; it takes oracle or explorer"),
        ({"kinds": "heat, boil"}, "kinds has 'boil'; it takes all or some of place, look, clean, heat, cool, two"),
        ({"split": "valid_seen"}, "split is 'valid_seen'; generated games have train, valid, test or all"),
        ({"games": "published"}, "published games are read from a folder on your disk; run `alfworld-download`"),
        ({"games": "published", "data": "/nowhere"}, "the data folder /nowhere is not there"),
        (
            {"games": "published", "data": ".", "split": "test"},
            "split is 'test'; published games have train, valid_seen, valid_unseen",
        ),
        ({"receptacles": 2}, "2 receptacles and 8 objects; at least 3 and 2 make a game"),
    ],
)
def test_wrong_options(given, says, monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    with pytest.raises(ConfigError, match=f"alfworld: {says}"):
        make("alfworld", **given)


def test_a_thing_that_was_taken_cannot_be_sliced_where_it_lay(player):
    way = ["go to countertop 1", "take apple 1 from countertop 1", "go to fridge 1", "open fridge 1"]
    way += ["move apple 1 to fridge 1", "go to countertop 1", "take knife 1 from countertop 1"]
    _, state = play(player, *way)
    assert "slice apple 1 with knife 1" not in player.commands(state)
    _, state = play(player, "go to countertop 1", "take apple 1 from countertop 1")
    assert state[4][0] == -1  # in hand, it lies nowhere


def test_look_names_what_was_moved_between_receptacles_of_one_place(player):
    way = [
        "go to countertop 1",
        "take apple 1 from countertop 1",
        "go to fridge 1",
        "open fridge 1",
        "open microwave 1",
    ]
    way += [
        "move apple 1 to fridge 1",
        "look",
        "take apple 1 from fridge 1",
        "look",
        "move apple 1 to microwave 1",
        "look",
    ]
    way += ["take apple 1 from microwave 1", "move apple 1 to fridge 1", "look"]
    back = ["take apple 1 from fridge 1", "move apple 1 to fridge 1", "look"]
    assert play(player, *way[:6], *back)[0][-1].endswith("Next to it, you see nothing.")
    said, _ = play(player, *way)
    beside = [text.partition("Next to it, you see ")[2] for text in said if text.startswith("You are facing")]
    assert beside == ["nothing.", "nothing.", "a apple 1.", "a apple 1."]  # the second time it is parted from the oven
