"""What the adapters share: randomness that stays in, copies where the other side can be copied, a state key.

Nothing is known of the true state of somebody else's environment, so its key is the way here: the seed and the valid
actions. Two ways to one state have two keys, which is safe and finds no recurring states; `state_key()` by observation
finds those that look alike.
"""

from __future__ import annotations

import copy
import random
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from apportion.envs.commands import CommandEnv
from apportion.envs.protocol import EnvSpec


class ForeignEnv(CommandEnv):
    """An environment around somebody else's object, ``_world``.

    An author writes `_open` (a fresh episode), `_play` (one action), `_observe` and `commands`. Both run with the
    process's random state put aside, so that environments that draw from it neither disturb others nor are disturbed.
    """

    def __init__(self, spec: EnvSpec) -> None:
        super().__init__(spec)
        self._world: Any = None
        self._way: tuple[str, ...] = ()
        self._stream: tuple[Any, Any] = (None, None)
        self._copies = True

    @abstractmethod
    def _open(self, seed: int) -> None:
        """Begin the episode of this seed."""

    @abstractmethod
    def _play(self, action: str) -> tuple[float, bool, bool]:
        """Carry out an accepted action; returns (reward increment, terminated, success)."""

    def _kept(self) -> Any:
        """What an adapter keeps of its own about this moment."""
        return None

    def _keep(self, kept: Any) -> None:
        """Take back what `_kept` gave."""

    def _copy(self, world: Any) -> Any:
        """A copy of the world that goes on alike; raise where there is none."""
        return copy.deepcopy(world)

    def _start(self, seed: int) -> None:
        self._way = (str(seed),)
        generator, legacy = random.Random(seed), np.random.RandomState(seed % 2**32)
        self._stream = (generator.getstate(), legacy.get_state())
        with self._alone():
            self._open(seed)

    def _apply(self, action: str) -> tuple[float, bool, bool]:
        self._way = (*self._way, action)
        with self._alone():
            return self._play(action)

    def _state(self) -> str:
        return repr(self._way)

    def _save(self) -> Any:
        """A copy; None, so that snapshots are restored by replay, where the world cannot be copied."""
        if not self._copies:
            return None
        try:
            return self._copy(self._world), self._way, self._stream, copy.deepcopy(self._kept())
        except Exception:  # whatever another package raises for what it cannot copy
            self._copies = False
            return None

    def _load(self, state: Any) -> None:
        world, self._way, self._stream, kept = state
        self._world = self._copy(world)
        self._keep(copy.deepcopy(kept))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """The process's random state is this environment's own inside, and untouched afterwards."""
        outside = random.getstate(), np.random.get_state()  # noqa: NPY002
        random.setstate(self._stream[0])
        np.random.set_state(self._stream[1])  # noqa: NPY002
        try:
            yield
        finally:
            self._stream = random.getstate(), np.random.get_state()  # noqa: NPY002
            random.setstate(outside[0])
            np.random.set_state(outside[1])  # noqa: NPY002
