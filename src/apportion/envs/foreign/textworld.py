"""TextWorld: its games from files, or one that it generates.

    make("textworld", games="games/", mode="choice")

What `step` of TextWorld returns is the score so far; the reward here is its increase. Needs the package textworld
(MIT), which needs jericho (GPL-2), so its extra is in no other.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from apportion.envs.commands import is_text
from apportion.envs.foreign.world import ForeignEnv
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.envs.splits import at_seed
from apportion.errors import ConfigError, missing_extra

KINDS = (".z8", ".ulx")


@register("textworld", extra="textworld")
class TextWorld(ForeignEnv):
    """Games of TextWorld as a text environment.

    Args:
        games: a game file (.z8 or .ulx, its .json beside it) or a folder of them; seeds go through them by name.
            "" = one game that is generated, which takes some seconds.
        world: number of the generated game.
        max_steps: steps of an episode.
        mode: "choice" among the admissible commands, or "text".
    """

    def __init__(self, *, games: str = "", world: int = 0, max_steps: int = 50, mode: str = "choice") -> None:
        try:
            import textworld
        except ImportError as error:
            raise missing_extra("TextWorld", "textworld", "textworld") from error
        super().__init__(
            EnvSpec(
                name="textworld",
                options=(("games", games), ("max_steps", max_steps), ("mode", mode), ("world", world)),
                full_state=False,
                shows_time=False,
                noise=DETERMINISTIC,
                max_steps=max_steps,
                free_text=is_text("textworld", mode),
                reward="increases of the game's score; the game ends when it is won or lost",
                return_range=(float("-inf"), float("inf")),
                reports=True,
            )
        )
        self._start_game: Any = textworld.start
        self._infos: Any = textworld.EnvInfos(
            admissible_commands=True, won=True, lost=True, policy_commands=True, score=True
        )
        self.files = _files(games) if games else (_generated(world),)
        self._now: dict[str, Any] = {}
        self._path = ""

    def commands(self) -> tuple[str, ...]:
        """What the game admits."""
        return tuple(self._now["admissible"])

    def expert(self) -> list[str] | None:
        """The game's own winning commands from here; None where it gives none, as in cooking games."""
        self._require_start("expert")
        return [] if self._over else list(self._now["winning"]) or None

    def _accepts(self, action: str) -> bool:
        return bool(action) if self._spec.free_text else action in self._now["admissible"]

    def _open(self, seed: int) -> None:
        path = at_seed(self.files, seed)
        if path != self._path:
            self._world, self._path = self._start_game(path, request_infos=self._infos), path
        self._take(self._world.reset(), 0)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        before = self._now["score"]
        state, score, done = self._world.step(action)
        self._take(state, score)
        return float(score - before), bool(done), bool(state.won)

    def _take(self, state: Any, score: float) -> None:
        self._now = {
            "text": str(state.feedback).strip() or "Nothing.",
            "admissible": sorted({command.strip() for command in state.admissible_commands or ()}),
            "winning": [command.strip() for command in state.policy_commands or ()],
            "score": score,
        }

    def _observe(self) -> str:
        return str(self._now["text"])

    def _copy(self, world: Any) -> Any:
        return world.copy()

    def _kept(self) -> dict[str, Any]:
        return {**self._now, "path": self._path}

    def _keep(self, kept: dict[str, Any]) -> None:
        self._path = kept.pop("path")
        self._now = kept


def _files(games: str) -> tuple[str, ...]:
    place = Path(games)
    found = [place] if place.is_file() else sorted(p for p in place.glob("*") if p.suffix in KINDS)
    if not found:
        raise ConfigError(f"textworld: {games}: no game; give a file or a folder of {' or '.join(KINDS)} files")
    return tuple(map(str, found))


@lru_cache(maxsize=4)
def _generated(world: int) -> str:
    """The file of a small game: two rooms, three things, two commands to win."""
    import textworld

    options: Any = textworld.GameOptions()
    options.seeds, options.nb_rooms, options.nb_objects = world, 2, 3
    options.quest_length = 2
    options.path = str(Path(tempfile.mkdtemp(prefix="apportion-textworld-")) / f"game{world}.z8")
    path, _ = textworld.make(options)
    return str(path)
