"""Our player against the package `alfworld`, step by step: the same text, the same admissible commands, reward, end.

Runs where the extra `alfworld` is installed (it pulls in GPL packages, so it is in no other extra); 2,400
steps take about ten minutes there. Steps lean to commands that change something, since most random walks only go about.
"""

import json
import lzma
import re
from random import Random

import pytest

from apportion.envs.alfworld.generate import generate_game
from apportion.envs.alfworld.player import Player
from apportion.envs.alfworld.problem import KINDS, read_problem

pytest.importorskip("alfworld", reason="the differential test needs the extra 'alfworld'")

STEPS = 40
GAMES = 30  # of each source


def published_rows(root):
    """Evaluation games, ``GAMES`` of them with every kind among them, as problems in PDDL."""
    with lzma.open(root / "alfworld" / "games_eval.jsonl.xz", "rt") as lines:
        can = json.loads(next(lines))["can"]
        rows = [json.loads(line) for line in lines]
    rows = sorted(rows, key=lambda row: row["id"].rsplit("_", 1)[1])[:GAMES]
    assert len({row["task_type"] for row in rows}) == 6
    return [as_pddl(row, can) for row in rows]


def as_pddl(row, can):
    types = {fact.split()[2] for fact in row["init"] if fact.split()[0] in ("objecttype", "receptacletype")}
    facts = [*row["init"], *(f"cancontain {r} {o}" for r, o in can if r in types and o in types)]
    declared = {}
    for fact in facts:
        word, *args = fact.split()
        if word in ("receptacletype", "objecttype"):
            what = word.removesuffix("type")
            declared[args[0]], declared[args[1]] = what, what[0] + "type"
        elif word == "atlocation":
            declared[args[0]], declared[args[1]] = "agent", "location"
        elif word in ("receptacleatlocation", "objectatlocation"):
            declared[args[1]] = "location"
    for what, kind in re.findall(r"\((object|receptacle)type \?\w+ (\w+)\)", row["goal"].lower()):
        declared.setdefault(kind, what[0] + "type")
    objects = "\n".join(f"{name} - {kind}" for name, kind in declared.items())
    inits = "\n".join(f"({fact})" for fact in facts)
    problem = f"(define (problem p)\n(:domain alfred)\n(:objects\n{objects}\n)\n(:init\n{inits}\n)\n{row['goal']}"
    return {"pddl_problem": problem, "grammar": f'"Your task is to: {row["task"]}."', "solvable": True}


def playable(data):
    """The game with the package's own domain and grammar, as its files have them."""
    from alfworld.info import ALFRED_PDDL_PATH, ALFRED_TWL2_PATH

    task = re.search(r"Your task is to: (.*?)\"", data["grammar"])[1].rstrip(".")
    with open(ALFRED_TWL2_PATH) as grammar, open(ALFRED_PDDL_PATH) as domain:
        words = grammar.read().replace("UNKNOWN GOAL", task)
        return {**data, "pddl_domain": domain.read(), "grammar": words}


def differences(data, path, seed):
    """Play both side by side; one entry per difference."""
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld import EnvInfos
    from textworld.envs.pddl import PddlEnv

    path.write_text(json.dumps(playable(data)))
    theirs = AlfredDemangler(PddlEnv(EnvInfos(won=True, admissible_commands=True)))
    theirs.load(str(path))
    ref = theirs.reset()
    player = Player(read_problem(data, "x"))
    state, rng, found = player.start, Random(seed), []
    if ref.feedback.strip() != player.intro().strip():
        found.append(("intro", ref.feedback, player.intro()))
    for step in range(STEPS):
        moves = player.commands(state)
        listed = {command.strip(): command for command in ref.admissible_commands}
        if sorted(listed) != sorted(moves):
            found.append((step, "commands", sorted(set(listed) ^ set(moves))))
            break
        telling = [c for c in sorted(moves) if not c.startswith("go to") and c not in ("help", "inventory", "look")]
        draw = rng.random()
        command = "look" if draw < 0.05 else rng.choice(telling if telling and draw < 0.7 else sorted(moves))
        ref, reward, done = theirs.step(listed[command])
        state, text = player.apply(state, moves[command])
        won = player.won(state)
        if ref.feedback.strip() != text.strip() or (float(reward), bool(done)) != (float(won), won):
            found.append((step, command, ref.feedback, text, reward, done, won))
        if done or won:
            ref, state = theirs.reset(), player.start
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", range(GAMES))
def test_published_games_are_played_alike(number, data_root, tmp_path):
    assert differences(published_rows(data_root)[number], tmp_path / "game.tw-pddl", number) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(GAMES))
def test_generated_games_are_played_alike(number, tmp_path):
    data = generate_game(number, kinds=(KINDS[number % 6],), receptacles=9, objects=8)
    assert differences(data, tmp_path / "game.tw-pddl", number) == []


@pytest.mark.slow
def test_the_comparison_can_fail(tmp_path, monkeypatch):
    monkeypatch.setattr(Player, "_look", lambda self, state: "You see everything.")
    assert differences(generate_game(0), tmp_path / "game.tw-pddl", 0)
