"""Room 1, *read*: rollouts as a user thinks of them, as flat checked arrays, and as files."""

from apportion.data.batch import Batch
from apportion.data.trajectory import Step, Trajectory
from apportion.data.words import words

__all__ = ["Batch", "Step", "Trajectory", "words"]
