"""A stand-in for ColBench: find out what somebody wants, then write it. `env` is the game."""

from apportion.envs.colspec.env import ColSpec

__all__ = ["ColSpec"]
