"""ALFWorld: household tasks in words; find things behind closed doors, treat them, put them where they belong.

    Task: put a hot apple in fridge. At countertop 1. Holding apple 1.
    Seen: countertop 1: egg 1; microwave 1: closed. Not seen: cabinet 1, drawer 1, fridge 1.

Games are generated, or the published ones with their official splits. What lies where is hidden until it is seen, so
the observation is not the full state, and equal observations can stand for different states.

Source    arXiv:2010.03768; played by the rules of `player`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from apportion.envs.alfworld import explorer
from apportion.envs.alfworld.games import data_folder, published_games
from apportion.envs.alfworld.generate import generate_game
from apportion.envs.alfworld.memory import Memory, nothing_seen, remember, told
from apportion.envs.alfworld.oracle import oracle
from apportion.envs.alfworld.player import REFUSED, Move, Player, State
from apportion.envs.alfworld.problem import KINDS, read_problem
from apportion.envs.commands import CommandEnv, is_text
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.envs.splits import SPLITS, at_seed, digest
from apportion.errors import ConfigError

CHOICES = {"games": ("generated", "published"), "show": ("summary", "message"), "advice": ("oracle", "explorer")}


@register("alfworld")
class Alfworld(CommandEnv):
    """Household tasks as a text environment.

    Args:
        games: "generated" (ours, no download) or "published".
        data: folder of the published games; "" = that of the environment variable ALFWORLD_DATA.
        split: of generated games train, valid, test or all: tasks (kind, thing, where to) of different splits differ;
            of published ones train, valid_seen or valid_unseen.
        kinds: "all", or kinds of task with commas between: place, look, clean, heat, cool, two.
        receptacles, objects: of a generated game.
        show: "summary" tells the task, where the player is, what is held and what was seen; "message" is the published
            game's own answer to the last command, which takes a prompt with the history.
        advice: what `expert` gives: "oracle" sees through closed doors, "explorer" knows what the player has seen.
        max_steps: steps of an episode.
        mode: "choice" among what is admissible, or "text".
    """

    def __init__(
        self,
        *,
        games: str = "generated",
        data: str = "",
        split: str = "train",
        kinds: str = "all",
        receptacles: int = 10,
        objects: int = 8,
        show: str = "summary",
        advice: str = "oracle",
        max_steps: int = 30,
        mode: str = "choice",
    ) -> None:
        options: dict[str, Any] = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        for option, values in CHOICES.items():
            if options[option] not in values:
                raise ConfigError(f"alfworld: {option} is {options[option]!r}; it takes {' or '.join(values)}")
        self.kinds = KINDS if kinds == "all" else tuple(kind.strip() for kind in kinds.split(","))
        if unknown := [kind for kind in self.kinds if kind not in KINDS]:
            raise ConfigError(f"alfworld: kinds has {unknown[0]!r}; it takes all or some of {', '.join(KINDS)}")
        super().__init__(
            EnvSpec(
                name="alfworld",
                options=tuple(sorted(options.items())),
                full_state=False,
                shows_time=False,
                noise=DETERMINISTIC,
                max_steps=max_steps,
                free_text=is_text("alfworld", mode),
                reward="1 for finishing the task, which ends the episode; 0 otherwise",
                return_range=(0.0, 1.0),
                reports=show == "message",
            )
        )
        self._messages, self._explores = show == "message", advice == "explorer"
        self._split, self._size = split, (receptacles, objects)
        self._published = None
        if games == "published":
            found = published_games(data_folder(data), split)
            chosen = [game for game in found if game.kind in self.kinds]
            self._published = tuple(sorted(chosen, key=lambda game: digest(game.name)))
            if not chosen:
                raise ConfigError(f"alfworld: split {split!r} has no task of kind {kinds}; it has {len(found)} others")
        elif split not in (*SPLITS, "all"):
            raise ConfigError(f"alfworld: split is {split!r}; generated games have {', '.join(SPLITS)} or all")
        else:
            _generated(0, self.kinds, split, receptacles, objects)  # says now what cannot be generated
        self.game = ""
        self._listed: dict[str, Move] | None = None

    @property
    def tasks(self) -> int | None:
        """How many games the split has; None: without end."""
        return None if self._published is None else len(self._published)

    def commands(self) -> tuple[str, ...]:
        """The admissible commands, as the published game lists them."""
        return tuple(self._moves())

    def expert(self) -> list[str] | None:
        """Commands from here, see the option ``advice``; None where there is none to give."""
        self._require_start("expert")
        if self._over:
            return []
        if self._explores:
            return explorer.plan(self.player, self._memory, self._world, self.steps_left)
        return oracle(self.player, self._world)

    def _start(self, seed: int) -> None:
        if self._published is not None:
            stored = at_seed(self._published, seed)
            self.game, self.player = stored.name, _stored(stored)
        else:
            self.game, self.player = f"{seed}", _generated(seed, self.kinds, self._split, *self._size)
        self._world: State = self.player.start
        self._memory: Memory = nothing_seen(self.player)
        self._message, self._listed = self.player.intro(), None

    def _observe(self) -> str:
        return self._message if self._messages else told(self.player, self._memory, self._world)

    def _state(self) -> str:
        place, held, opened, contents, places, flags, parted = self._world
        seen = "" if self._messages and not self._explores else f" seen {self._memory}"
        return (
            f"{self.game}: {place} {held} {sorted(opened)} {contents} {places} {sorted(flags)} {sorted(parted)}{seen}"
        )

    def _accepts(self, action: str) -> bool:
        return action in self._moves()

    def _apply(self, action: str) -> tuple[float, bool, bool]:
        move = self._moves()[action]
        self._world, self._message = self.player.apply(self._world, move)
        self._memory, self._listed = remember(self.player, self._memory, self._world, move), None
        won = self.player.won(self._world)
        return float(won), won, won

    def _idle(self) -> None:
        if self._messages and self._spec.free_text:
            self._message = self._text = REFUSED

    def _moves(self) -> dict[str, Move]:
        if self._listed is None:
            self._listed = self.player.commands(self._world)
        return self._listed

    def _save(self) -> tuple[str, Player, State, Memory, str]:
        return self.game, self.player, self._world, self._memory, self._message  # nothing here is ever changed

    def _load(self, state: Any) -> None:
        self.game, self.player, self._world, self._memory, self._message = state
        self._listed = None


@lru_cache(maxsize=1024)
def _generated(seed: int, kinds: tuple[str, ...], split: str, receptacles: int, objects: int) -> Player:
    data = generate_game(seed, kinds=kinds, split=split, receptacles=receptacles, objects=objects)
    return Player(read_problem(data, f"generated game {seed}"))


@lru_cache(maxsize=1024)
def _stored(game: Any) -> Player:
    return Player(game.problem())
