"""Fitting twins to a buffer that does not grow: what an epoch draws, as a task of `fitting.run`."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from apportion.models.replay import Replay
from apportion.models.transitions import Transitions
from apportion.models.twins import Twins
from apportion.numerics import IntArray


class Offline:
    """Items are the transitions that an epoch draws, as many as the buffer holds.

    Args:
        twins: what is fitted. replay: the buffer, empty. given: what it gets. seed: of the draws.
    """

    def __init__(self, twins: Twins, replay: Replay, given: Transitions, seed: int) -> None:
        self.twins, self.replay, self.given, self.seed = twins, replay, given, seed
        self.drawn = np.zeros(0, dtype=np.int64)

    @property
    def sizes(self) -> IntArray:
        """See `fitting.Task`."""
        return self.replay.sizes(self.drawn)

    def fill(self) -> None:
        """Put the transitions into the buffer, once; not before the run was found to be allowed to write there."""
        if not self.replay.added:
            self.replay.add(self.given)

    def begin(self, epoch: int) -> None:
        """See `fitting.Task`."""
        self.fill()
        self.drawn = self.replay.draw(len(self.replay), np.random.default_rng([self.seed, epoch, 1]))

    def loss(self, items: IntArray) -> tuple[Tensor, float]:
        """See `fitting.Task`."""
        losses = self.twins.losses(self.replay.read(self.drawn[items]))
        return losses.sum(), float(len(items))
