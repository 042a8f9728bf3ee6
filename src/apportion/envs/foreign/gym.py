"""Gymnasium: any environment of it whose observations are texts or numbers of states.

make("gym", id="FrozenLake-v1", actions="left,down,right,up")
"""

from __future__ import annotations

from typing import Any

from apportion.envs.foreign.world import ForeignEnv
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.errors import ConfigError, missing_extra


@register("gym", extra="envs")
class Gym(ForeignEnv):
    """An environment of Gymnasium as a text environment.

    Args:
        id: as for ``gymnasium.make``; import the package that registers it first ("module:Name-v0" does that).
        kwargs: for ``gymnasium.make``.
        actions: names of the numbered actions with commas between; "" = "action 0", "action 1", …. An environment whose
            actions are texts takes any text.
        key: where observations are dictionaries, the entry that is the text.
        max_steps: steps of an episode, if the environment does not end it sooner.
    """

    def __init__(
        self,
        *,
        id: str = "FrozenLake-v1",
        kwargs: dict[str, Any] | None = None,
        actions: str = "",
        key: str = "",
        max_steps: int = 100,
    ) -> None:
        try:
            import gymnasium
        except ImportError as error:
            raise missing_extra("Gymnasium's environments", "gymnasium", "envs") from error
        try:
            world: Any = gymnasium.make(id, disable_env_checker=True, max_episode_steps=max_steps, **(kwargs or {}))
        except gymnasium.error.Error as error:
            raise ConfigError(f"gym: {id!r} cannot be made ({error}); see gymnasium.registry") from None
        space: Any = world.action_space
        numbered = isinstance(space, gymnasium.spaces.Discrete)
        if not numbered and not isinstance(space, gymnasium.spaces.Text):
            raise ConfigError(f"gym: {id} has actions of {space}; text environments have Discrete or Text actions")
        names = tuple(name.strip() for name in actions.split(",")) if actions else ()
        if numbered and not names:
            names = tuple(f"action {k}" for k in range(int(space.n)))
        if names and (not numbered or len(set(names)) != int(space.n)):
            raise ConfigError(f"gym: {id} has actions of {space}, and actions names {len(names)}: {', '.join(names)}")
        given = {"id": id, "kwargs": tuple(sorted((kwargs or {}).items())), "actions": actions, "key": key}
        super().__init__(
            EnvSpec(
                name="gym",
                options=tuple(sorted({**given, "max_steps": max_steps}.items())),
                full_state=False,  # nobody has said so
                shows_time=False,
                noise=DETERMINISTIC,
                max_steps=max_steps,
                free_text=not numbered,
                reward="what the environment pays",
                return_range=(float("-inf"), float("inf")),
                reports=True,
            )
        )
        self._world, self._names, self._key = world, names, key
        self._first = int(space.start) if numbered else 0
        self._seen = ""

    def commands(self) -> tuple[str, ...]:
        """The named actions; none are listed where actions are texts."""
        return self._names

    def _accepts(self, action: str) -> bool:
        return bool(action) if self._spec.free_text else action in self._names

    def _open(self, seed: int) -> None:
        seen, _ = self._world.reset(seed=seed)
        self._seen = self._text_of(seen)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        move = action if self._spec.free_text else self._first + self._names.index(action)
        seen, reward, terminated, truncated, info = self._world.step(move)
        self._seen = self._text_of(seen)
        success = bool(info.get("success", terminated and reward > 0))
        return float(reward), bool(terminated or (truncated and self.steps_left > 1)), success

    def _text_of(self, seen: Any) -> str:
        value = seen[self._key] if self._key else seen
        return value if isinstance(value, str) else f"state {value}"

    def _observe(self) -> str:
        return self._seen

    def _kept(self) -> str:
        return self._seen

    def _keep(self, kept: str) -> None:
        self._seen = kept
