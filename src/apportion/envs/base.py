"""The part that all environments share: order of calls, the clock, invalid actions, snapshots, replay.

An author writes five small functions (`_start`, `_observe`, `_state`, `_apply`, `actions`) and, where
the state can be copied, two more (`_save`, `_load`); without them snapshots are restored by replay.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from apportion.envs.protocol import EnvSpec, KeySource, Snapshot
from apportion.errors import ConfigError, EnvError


class BaseEnv(ABC):
    """A text environment but for its game.

    `steps` counts the steps of this episode, invalid ones included; `noise_seed` is the stream that
    `_apply` must draw its noise from, best as a function of (noise_seed, steps): see `TabularEnv`.
    """

    def __init__(self, spec: EnvSpec) -> None:
        if spec.max_steps < 1:
            raise ConfigError(f"{spec.name}: max_steps is {spec.max_steps}; an episode needs at least one step")
        self._spec = spec
        self.steps = 0
        self.noise_seed = 0
        self._seed: int | None = None
        self._options: dict[str, Any] = {}
        self._taken: list[str] = []
        self._reseeds: list[tuple[int, int]] = []
        self._over = False
        self._text = ""

    # what an author writes

    @abstractmethod
    def _start(self, seed: int) -> None:
        """Set up the task and start state of this seed."""

    @abstractmethod
    def _observe(self) -> str:
        """The text of the current state."""

    @abstractmethod
    def _state(self) -> str:
        """A key of the true state: everything that matters for the future, except the clock."""

    @abstractmethod
    def _apply(self, action: str) -> tuple[float, bool, bool]:
        """Carry out an accepted action; returns (reward increment, terminated, success)."""

    @abstractmethod
    def actions(self) -> tuple[str, ...] | None:
        """The actions accepted now; None where any text may be tried."""

    def _accepts(self, action: str) -> bool:
        """Whether the action is valid now. Free-text environments override this."""
        return action in (self.actions() or ())

    def _idle(self) -> None:
        """An invalid action costs a step: tell a clock of your own, if there is one."""
        return

    def _save(self) -> Any:
        """A copy of the state that later play cannot change; None: only replay restores."""
        return None

    def _load(self, state: Any) -> None:
        """Take over what `_save` returned, without keeping a hold on it."""
        raise EnvError(f"{self.spec.name}: _save keeps a state that nothing loads; write _load beside it")

    def expert(self) -> list[str] | None:
        """No advice unless the environment has some."""
        return None

    def reference(self) -> str | None:
        """What the policy must not see and a critic may at training time: a gold answer, hidden tests. Or None."""
        return None

    # what a user calls

    @property
    def spec(self) -> EnvSpec:
        """What the environment says about itself."""
        return self._spec

    @property
    def steps_left(self) -> int:
        """Steps until the episode is cut off."""
        return self._spec.max_steps - self.steps

    def reset(self, *, seed: int, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the task of this seed; the only option is `noise_seed`, the stream of the noise."""
        name = self._spec.name
        if not _is_count(seed):
            raise ConfigError(f"{name}.reset: seed is {seed!r}; give an integer from 0 on, it fixes the task")
        options = dict(options or {})
        unknown = sorted(set(options) - {"noise_seed"})
        if unknown:
            raise ConfigError(f"{name}.reset: unknown option {unknown[0]!r}; it takes noise_seed")
        self._seed, self._options = seed, options
        self._taken, self._reseeds = [], []
        self.steps, self._over = 0, False
        self.noise_seed = int(options.get("noise_seed", seed))
        self._start(seed)
        self._text = self._observe()
        return self._text, {"seed": seed, "noise_seed": self.noise_seed, "steps_left": self.steps_left}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Act; returns observation, reward increment, terminated, truncated, info."""
        self._require_start("step")
        name = self._spec.name
        if self._over:
            raise EnvError(f"{name}.step: the episode is over after {self.steps} steps; call reset first")
        if not isinstance(action, str):
            raise EnvError(f"{name}.step: the action is a {type(action).__name__}; give its text")
        action = action.strip()
        valid = self._accepts(action)
        reward, terminated, success = 0.0, False, False
        if valid:
            reward, terminated, success = self._apply(action)
        else:
            self._idle()
        self.steps += 1
        self._taken.append(action)
        truncated = not terminated and self.steps >= self._spec.max_steps
        self._over = terminated or truncated
        if valid or self._spec.shows_time:
            self._text = self._observe()
        info: dict[str, Any] = {"invalid": not valid, "steps_left": self.steps_left}
        if self._over:
            info["success"] = success
        return self._text, float(reward), terminated, truncated, info

    def state_key(self, *, by: KeySource = "observation") -> str:
        """The text seen now, or a key of the true state."""
        self._require_start("state_key")
        if by == "observation":
            return self._text
        if by != "state":
            raise ConfigError(f"{self._spec.name}.state_key: by is {by!r}; it takes 'observation' or 'state'")
        clock = f" left={self.steps_left}" if self._spec.shows_time else ""
        return self._state() + clock

    def snapshot(self) -> Snapshot:
        """This moment, to come back to."""
        self._require_start("snapshot")
        assert self._seed is not None
        return Snapshot(
            spec=self._spec,
            seed=self._seed,
            options=tuple(sorted(self._options.items())),
            actions=tuple(self._taken),
            reseeds=tuple(self._reseeds),
            over=self._over,
            key=self.state_key(by="state"),
            state=self._save(),
        )

    def restore(self, snapshot: Snapshot, *, noise_seed: int | None = None) -> str:
        """Go to that moment; with `noise_seed` the noise from here on is drawn afresh."""
        if snapshot.spec != self._spec:
            raise EnvError(
                f"{self._spec.name}.restore: the snapshot is of {snapshot.spec.name} with options "
                f"{dict(snapshot.spec.options)}, this is {self._spec.name} with {dict(self._spec.options)}; "
                f"make the environment with the same options"
            )
        if snapshot.state is None:
            self._replay(snapshot)
        else:
            self._load(snapshot.state)
            self._seed, self._options = snapshot.seed, dict(snapshot.options)
            self._taken, self._reseeds = list(snapshot.actions), list(snapshot.reseeds)
            self.steps, self._over = len(snapshot.actions), snapshot.over
            first = int(self._options.get("noise_seed", snapshot.seed))
            self.noise_seed = self._reseeds[-1][1] if self._reseeds else first
            self._text = self._observe()
        if noise_seed is not None:
            self._reseed(noise_seed)
        return self._text

    # within

    def _replay(self, snapshot: Snapshot) -> None:
        self.reset(seed=snapshot.seed, options=dict(snapshot.options))
        reseeds = list(snapshot.reseeds)
        for index in range(len(snapshot.actions) + 1):
            while reseeds and reseeds[0][0] == index:
                self._reseed(reseeds.pop(0)[1])
            if index < len(snapshot.actions):
                self.step(snapshot.actions[index])
        if self.state_key(by="state") != snapshot.key:
            raise EnvError(
                f"{self._spec.name}.restore: replaying {len(snapshot.actions)} actions from seed "
                f"{snapshot.seed} led to another state than the snapshot's; the environment draws on "
                f"something that its seed does not fix"
            )

    def _reseed(self, noise_seed: int) -> None:
        self._reseeds.append((self.steps, noise_seed))
        self.noise_seed = noise_seed

    def _require_start(self, call: str) -> None:
        if self._seed is None:
            raise EnvError(f"{self._spec.name}.{call}: the environment has no episode yet; call reset first")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
