"""What a text environment is: Gymnasium's shape, with words for observations and actions.

    env = make("crafttree")
    text, info = env.reset(seed=3)
    text, reward, terminated, truncated, info = env.step("get log")

Rules that hold for every environment, each of them checked by `apportion.envs.conformance`:

* A seed fixes the task and its start state, in every process. `options={"noise_seed": k}` draws other
  noise on the same task; without it the noise follows from the seed.
* A reward is an increment. The return of an episode is the sum of its rewards.
* An invalid action costs one step, pays 0, changes nothing else, and sets `info["invalid"]`.
  Blanks around an action do not count; everything else does.
* At the end `info["success"]` says whether the goal was reached. `truncated` means the step limit.
* A step before the first reset, or after the end, is an EnvError.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

DETERMINISTIC = "deterministic"

KeySource = Literal["observation", "state"]


@dataclass(frozen=True, slots=True)
class EnvSpec:
    """What an environment says about itself.

    name          the registry name
    options       the construction options, sorted by name; two equal specs play the same game
    full_state    the observation tells everything that matters for the future except the clock
    shows_time    the observation also tells how many steps are left
    noise         "deterministic", or a sentence saying what is random after the start
    max_steps     episodes are truncated after so many steps
    free_text     actions are any text; `actions()` is None
    reward        a sentence: what is paid, and when
    return_range  lowest and highest possible sum of rewards of one episode
    reports       the text reports what the last action did, so that equal states can read differently; else it is a
                  function of the state (and of the clock, if shown)
    """

    name: str
    options: tuple[tuple[str, Any], ...]
    full_state: bool
    shows_time: bool
    noise: str
    max_steps: int
    free_text: bool
    reward: str
    return_range: tuple[float, float]
    reports: bool = False

    @property
    def markov(self) -> bool:
        """The observation alone fixes the value of a policy.

        Under a step limit that takes both the full state and the steps left; `full_state` alone means
        that (observation, steps left) is Markov.
        """
        return self.full_state and self.shows_time


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment of an episode, to branch from; restoring it any number of times leaves it as it is.

    It holds the way here (seed, reset options, actions, reseeds) and, where the environment can copy
    itself, the state. Without `state` it is restored by replay and the state key is compared.
    """

    spec: EnvSpec
    seed: int
    options: tuple[tuple[str, Any], ...]
    actions: tuple[str, ...]
    reseeds: tuple[tuple[int, int], ...]
    over: bool
    key: str
    state: Any = field(default=None, repr=False, compare=False)

    def portable(self) -> Snapshot:
        """The same moment as plain data, restored by replay: fit for another process or a file."""
        return replace(self, state=None)


@runtime_checkable
class TextEnv(Protocol):
    """The protocol; `apportion.envs.base.BaseEnv` supplies all of it but the game."""

    @property
    def spec(self) -> EnvSpec:
        """What the environment says about itself."""

    def reset(self, *, seed: int, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the task of this seed; returns the first observation and info."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Act; returns observation, reward increment, terminated, truncated, info."""

    def actions(self) -> tuple[str, ...] | None:
        """The actions accepted now, in a fixed order; None where any text may be tried."""

    def state_key(self, *, by: KeySource = "observation") -> str:
        """The text seen now, or a key of the true state (without the clock unless the text shows it).

        Equal true-state keys mean equal behaviour while steps are left, and equal texts unless `spec.reports`.
        """

    def snapshot(self) -> Snapshot:
        """This moment."""

    def restore(self, snapshot: Snapshot, *, noise_seed: int | None = None) -> str:
        """Go to that moment; returns its observation.

        Without `noise_seed` the same actions give the same continuation; with one, the noise from here on
        is drawn afresh, which is what averaging over resampled continuations needs.
        """

    def expert(self) -> list[str] | None:
        """Good actions from here, at least the next one, without disturbing the game; None: no advice.

        Where the noise can change the state, ask again after every step.
        """
