"""Where in a rollout: a moment between tokens, and a run of sampled tokens."""

from __future__ import annotations

from dataclasses import dataclass

from apportion.errors import ConfigError


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A moment of a rollout.

    Attributes:
        traj: position of the trajectory in its batch.
        step: step of that trajectory, counted from 0 inside it.
        token: sampled tokens of that step that are already written; 0 is before the action, and all of them after it
            but before the environment has answered.
    """

    traj: int
    step: int = 0
    token: int = 0

    def __post_init__(self) -> None:
        if min(self.traj, self.step, self.token) < 0:
            raise ConfigError(f"{self} counts below zero; trajectories, steps and tokens are counted from 0")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """Sampled tokens ``first`` up to, but without, ``last`` of one step of a trajectory."""

    step: int
    first: int
    last: int

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last or self.step < 0:
            raise ConfigError(f"{self} is no run of tokens; 0 <= first <= last, steps are counted from 0")
