"""Bringing an environment to a moment of a rollout: by snapshot or by replay, and compared before anything is asked."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

from apportion.asks import Place
from apportion.data import Step, Trajectory
from apportion.errors import ConfigError, EnvError
from apportion.resources.context import path
from apportion.resources.protocol import Refusal

SHORT = 120
"""Characters of a state that a sentence repeats."""
DETERMINISTIC = "deterministic"


@runtime_checkable
class Environment(Protocol):
    """What is needed of an environment: the protocol of `apportion.envs.TextEnv`."""

    @property
    def spec(self) -> Any:
        """``noise`` and ``max_steps`` are read."""

    def reset(self, *, seed: int, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start a task."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Act."""

    def actions(self) -> tuple[str, ...] | None:
        """Admissible actions."""

    def state_key(self, *, by: Any = "observation") -> str:
        """The text seen now; ``by="state"``: a key of the true state."""

    def snapshot(self) -> Any:
        """This moment."""

    def restore(self, snapshot: Any, *, noise_seed: int | None = None) -> str:
        """Back to it, with fresh noise from here on."""


Make = Callable[..., Any]


class Stage:
    """Environments, ready at moments of rollouts; safe to use from several threads.

    Args:
        env: an environment, or a function ``(name, **options) -> environment`` that makes the one that
            ``meta["env"]`` and ``meta["env_options"]`` of a rollout tell, such as `apportion.envs.make`.
        compare: what is compared with the rollout: "state" (`Step.state` where there is one, else the observation) or
            "observation".
        kept: snapshots that are kept.
    """

    def __init__(self, env: Environment | Make, *, compare: str = "state", kept: int = 4096) -> None:
        if compare not in ("state", "observation"):
            raise ConfigError(f"env: compare is {compare!r}; give 'state' or 'observation'")
        self._one = env if isinstance(env, Environment) and not isinstance(env, type) else None
        if self._one is None and not callable(env):
            raise ConfigError(
                f"env: a {type(env).__name__} is neither an environment (reset, step, actions, state_key, snapshot, "
                "restore, spec) nor a function that makes one"
            )
        self._make, self.compare, self.kept = env, compare, kept
        self._free: dict[str, list[Environment]] = {}
        self._specs: dict[str, Any] = {}
        self._moments: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def single(self) -> bool:
        """There is one environment, so one rollout at a time."""
        return self._one is not None

    def unfit(self, rollout: Trajectory, place: Place) -> str:
        """Why no environment can be brought there, as a sentence; "" when one can be tried."""
        name, meta = _name(rollout), rollout.meta
        if not _count(meta.get("seed")):
            return f"{name}: meta has no 'seed', so its environment cannot be started again; record it when rolling out"
        if self._one is None and not isinstance(meta.get("env"), str):
            return f"{name}: meta has no 'env', the name of its environment; record it when rolling out"
        for s in path(rollout, place.step)[:-1]:
            if rollout.steps[s].action is None:
                return f"{name}, step {s} has no action as text, so it cannot be played again; log Step.action"
        return ""

    def spec(self, rollout: Trajectory) -> Any:
        """What its environment says about itself."""
        key = self._key(rollout)
        if key not in self._specs:
            env = self.borrow(rollout)
            self._specs[key] = env.spec
            self.give_back(rollout, env)
        return self._specs[key]

    def borrow(self, rollout: Trajectory) -> Environment:
        """An environment of the rollout's kind, for this caller alone.

        Raises:
            ConfigError: it cannot be made.
        """
        if self._one is not None:
            return self._one
        with self._lock:
            free = self._free.setdefault(self._key(rollout), [])
            if free:
                return free.pop()
        assert callable(self._make)
        made = self._make(rollout.meta["env"], **dict(rollout.meta.get("env_options") or {}))
        if not isinstance(made, Environment):
            raise ConfigError(f"env: the function made a {type(made).__name__}, which is no text environment")
        return made

    def give_back(self, rollout: Trajectory, env: Environment) -> None:
        """It may be used again."""
        if env is not self._one:
            with self._lock:
                self._free.setdefault(self._key(rollout), []).append(env)

    def bring(self, env: Environment, rollout: Trajectory, step: int) -> str:
        """Bring an environment to the moment before a step; returns what is seen there.

        Raises:
            Refusal: it is not where the rollout was: which step, what was expected, what was found.
        """
        way = path(rollout, step)
        done, text = self._nearest(env, rollout, way)
        if done < 0:
            options = {} if rollout.meta.get("noise_seed") is None else {"noise_seed": rollout.meta["noise_seed"]}
            text, _ = _safely(rollout, step, partial(env.reset, seed=rollout.meta["seed"], options=options or None))
            done = 0
            self._arrived(env, text, rollout, way, 0)
        while done < len(way) - 1:
            action = rollout.steps[way[done]].action
            assert action is not None  # unfit
            text, _, over, cut, _ = _safely(rollout, way[done], partial(env.step, action))
            done += 1
            if over or cut:
                raise Refusal(
                    f"{_name(rollout)}: played again, the environment ended before step {way[done]}, where the rollout "
                    f"went on; it is another environment, or draws on something that the seed does not fix"
                )
            text = self._arrived(env, text, rollout, way, done)
        return text

    def _nearest(self, env: Environment, rollout: Trajectory, way: list[int]) -> tuple[int, str]:
        """The last moment on the way that there is a snapshot of, restored and compared; -1 without one."""
        for done in range(len(way) - 1, -1, -1):
            with self._lock:
                snapshot = self._moments.get(self._moment(rollout, way[: done + 1]))
            if snapshot is not None:
                text = _safely(rollout, way[done], partial(env.restore, snapshot))
                self._compare(env, text, rollout, way[done])
                return done, text
        return -1, ""

    def _arrived(self, env: Environment, text: str, rollout: Trajectory, way: list[int], done: int) -> str:
        self._compare(env, text, rollout, way[done])
        noise = rollout.steps[way[done]].extra.get("noise_seed")
        if noise is not None:  # here a branch drew its noise afresh
            text = env.restore(env.snapshot(), noise_seed=noise)
        with self._lock:
            self._moments[self._moment(rollout, way[: done + 1])] = env.snapshot()
            while len(self._moments) > self.kept:
                self._moments.popitem(last=False)
        return text

    def _compare(self, env: Environment, text: str, rollout: Trajectory, s: int) -> None:
        step = rollout.steps[s]
        if step.state is not None and self.compare == "state":
            found = env.state_key()
            if step.state in (found, env.state_key(by="state")):
                return
            what, want = "state", step.state
        elif step.observation is not None:
            if step.observation == text:
                return
            what, want, found = "observation", step.observation, text
        else:
            raise Refusal(
                f"{_name(rollout)}, step {s} has neither state nor observation, so nobody can tell whether the "
                "environment is where the rollout was; log Step.observation"
            )
        raise Refusal(
            f"{_name(rollout)}, step {s}: the environment is not where the rollout was: {what} expected "
            f"{_short(want)}, found {_short(found)}; check its options, its version and what its seed does not fix"
        )

    def _key(self, rollout: Trajectory) -> str:
        if self._one is not None:
            return ""
        return json.dumps([rollout.meta.get("env"), rollout.meta.get("env_options")], sort_keys=True, default=repr)

    def _moment(self, rollout: Trajectory, way: list[int]) -> tuple[Any, ...]:
        """Everything that fixes where an environment is: the task, the noise, the actions."""
        steps = [rollout.steps[s] for s in way]
        actions = tuple(step.action for step in steps[:-1])
        return (self._key(rollout), rollout.meta["seed"], rollout.meta.get("noise_seed"), actions, noises(steps))


def noises(steps: list[Step]) -> tuple[Any, ...]:
    """Where on a way branches drew their noise afresh."""
    return tuple(step.extra.get("noise_seed") for step in steps)


def _safely(rollout: Trajectory, step: int, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except EnvError as problem:
        raise Refusal(f"{_name(rollout)}, step {step}: the environment cannot be brought there: {problem}") from problem


def _name(rollout: Trajectory) -> str:
    return "the rollout" if rollout.id is None else f"rollout {rollout.id!r}"


def _short(text: str) -> str:
    return repr(text if len(text) <= SHORT else text[: SHORT - 1] + "…")


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
