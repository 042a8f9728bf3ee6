"""TextArena: its games for one player, of those that start without a download or a model as game master.

    make("textarena", game="GuessTheNumber-v0")

Games draw from the process's random state; here each has its own. Needs the package textarena (MIT), which needs the
package chess (GPL-3), so its extra is in no other.
"""

from __future__ import annotations

from typing import Any

from apportion.envs.foreign.world import ForeignEnv
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.errors import ConfigError, missing_extra


@register("textarena", extra="textarena")
class TextArena(ForeignEnv):
    """A game of TextArena as a free-text environment; actions are what the game says, mostly words in brackets.

    Args:
        game: its id.
        show: "all" = the whole talk so far, as the game shows it; "news" = what came since the last action.
        max_steps: steps of an episode, if the game does not end it sooner.
    """

    def __init__(self, *, game: str = "GuessTheNumber-v0", show: str = "all", max_steps: int = 50) -> None:
        try:
            import textarena
        except ImportError as error:
            raise missing_extra("TextArena", "textarena", "textarena") from error
        if show not in ("all", "news"):
            raise ConfigError(f"textarena: show is {show!r}; it takes all or news")
        super().__init__(
            EnvSpec(
                name="textarena",
                options=(("game", game), ("max_steps", max_steps), ("show", show)),
                full_state=False,
                shows_time=False,
                noise=DETERMINISTIC,
                max_steps=max_steps,
                free_text=True,
                reward="what the game pays at its end, from -1 to 1",
                return_range=(-1.0, 1.0),
                reports=True,
            )
        )
        self._make, self._game = textarena.make, game
        try:
            self._make(game)
        except Exception as error:  # games without their word list or game master raise whatever comes
            raise ConfigError(f"textarena: {game!r} cannot be made here ({error}); take another game") from None
        self._all = show == "all"
        self._talk, self._before = "", 0

    def commands(self) -> tuple[str, ...]:
        """None are listed."""
        return ()

    def _accepts(self, action: str) -> bool:
        return bool(action)

    def _open(self, seed: int) -> None:
        self._world = self._make(self._game)  # a second reset would show the talk of the first
        self._world.reset(num_players=1, seed=seed)
        self._before, self._talk = 0, str(self._world.get_observation()[1])

    def _play(self, action: str) -> tuple[float, bool, bool]:
        done, _ = self._world.step(action)
        if done:
            rewards, _ = self._world.close()
            reward = float((rewards or {}).get(0, 0.0))
            self._before, self._talk = len(self._talk), f"{self._talk}\nThe game is over."
            return reward, True, reward >= 1
        self._before, self._talk = len(self._talk), str(self._world.get_observation()[1])
        return 0.0, False, False

    def _observe(self) -> str:
        return self._talk if self._all else self._talk[self._before :].strip() or "Nothing new."

    def _kept(self) -> Any:
        return self._talk, self._before

    def _keep(self, kept: Any) -> None:
        self._talk, self._before = kept
