"""Published ALFWorld games on the user's disk: the folder that `alfworld-download` fills, or packed files.

    <data>/json_2.1.1/train/<task>/<trial>/game.tw-pddl      also valid_seen, valid_unseen; or json_2.1.1 itself
    <data>/games_*.jsonl.xz                                  one game a line, one table of what may lie where

Left out, as by the package: games marked unsolvable, tasks with movable vessels or slices.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from apportion.envs.alfworld.problem import Problem, problem_of, read_problem
from apportion.errors import ConfigError, FormatError

PUBLISHED = ("train", "valid_seen", "valid_unseen")
VARIABLE = "ALFWORLD_DATA"
KIND_OF_FOLDER = {
    "pick_and_place_simple": "place",
    "look_at_obj_in_light": "look",
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
    "pick_two_obj_and_place": "two",
}


class StoredGame:
    """A game that is read when it is played.

    name: task and trial. kind: of the task. walkthrough: of the planner; empty where the file has none.
    """

    def __init__(self, name: str, kind: str, load: Callable[[], Problem], walkthrough: tuple[str, ...] = ()) -> None:
        self.name, self.kind, self._load, self.walkthrough = name, kind, load, walkthrough

    def problem(self) -> Problem:
        """Read it."""
        return self._load()


def data_folder(given: str) -> Path:
    """The folder given, or that of the environment variable ALFWORLD_DATA.

    Raises:
        ConfigError: neither, or it is not there.
    """
    named = given or os.environ.get(VARIABLE, "")
    if not named:
        raise ConfigError(
            f"alfworld: published games are read from a folder on your disk; run `alfworld-download` of the package "
            f"alfworld, then set {VARIABLE} or the option data to that folder"
        )
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"alfworld: the data folder {folder} is not there; set {VARIABLE} or the option data")
    return folder


@lru_cache(maxsize=8)
def published_games(folder: Path, split: str) -> tuple[StoredGame, ...]:
    """The games of an official split, by name.

    Raises:
        ConfigError: no such split, or no game of it in the folder.
        FormatError: a packed file that cannot be read.
    """
    if split not in PUBLISHED:
        raise ConfigError(f"alfworld: split is {split!r}; published games have {', '.join(PUBLISHED)}")
    games = _packed(folder, split) or _loose(folder, split)
    if not games:
        raise ConfigError(
            f"alfworld: {folder} holds no game of split {split!r}; it should hold json_2.1.1/{split}/*/*/game.tw-pddl"
        )
    return tuple(sorted(games, key=lambda game: game.name))


def _loose(folder: Path, split: str) -> list[StoredGame]:
    root = next((r for r in (folder / "json_2.1.1", folder) if (r / split).is_dir()), folder)
    games = []
    for path in sorted((root / split).glob("*/*/game.tw-pddl")):
        task = path.parent.parent.name
        kind = KIND_OF_FOLDER.get(task.split("-")[0])
        if kind is None or "Sliced" in task or "movable" in task:
            continue
        data = _json(path)
        if data.get("solvable"):
            games.append(StoredGame(f"{task}/{path.parent.name}", kind, lambda p=path: read_problem(_json(p), str(p))))  # type: ignore[misc]
    return games


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise FormatError(f"{path}: cannot be read ({error}); give a game in the published format") from None
    if not isinstance(data, dict):
        raise FormatError(f"{path}: holds a {type(data).__name__}; give a game in the published format")
    return data


def _packed(folder: Path, split: str) -> list[StoredGame]:
    games = []
    for path in sorted(folder.glob("games_*.jsonl.xz")):
        try:
            with lzma.open(path, "rt", encoding="utf-8") as lines:
                can = [tuple(pair) for pair in json.loads(next(lines))["can"]]
                rows = [json.loads(line) for line in lines if split in line]
            games += [_packed_game(row, can, str(path)) for row in rows if row["split"] == split]
        except (ValueError, KeyError, TypeError, StopIteration, lzma.LZMAError, EOFError) as error:
            raise FormatError(f"{path}: is no packed file of games ({error!r}); give the published folder") from None
    return games


def _packed_game(row: dict[str, Any], can: list[tuple[str, ...]], at: str) -> StoredGame:
    def load() -> Problem:
        facts = [tuple(fact.split()) for fact in row["init"]]
        types = {fact[2] for fact in facts if fact[0] in ("objecttype", "receptacletype")}
        facts += [("cancontain", r, o) for r, o in can if r in types and o in types]
        return problem_of(facts, row["goal"], row["task"], f"{at}, {row['id']}")

    return StoredGame(row["id"], KIND_OF_FOLDER[row["task_type"]], load, tuple(row["walkthrough"]))
