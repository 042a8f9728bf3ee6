"""Environments of other packages behind our protocol: Gymnasium, TextArena, TextWorld."""

from apportion.envs.foreign.gym import Gym
from apportion.envs.foreign.textarena import TextArena
from apportion.envs.foreign.textworld import TextWorld

__all__ = ["Gym", "TextArena", "TextWorld"]
