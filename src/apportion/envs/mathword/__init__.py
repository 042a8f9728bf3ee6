"""Problems with a checked answer, one response each. `env` is the game, `sources` the problems."""

from apportion.envs.mathword.env import MathWord

__all__ = ["MathWord"]
