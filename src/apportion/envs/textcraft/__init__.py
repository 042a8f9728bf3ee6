"""TextCraft: craft a goal from a list of recipes. `env` is the game, `recipes` what it is about."""

from apportion.envs.textcraft.env import TextCraft

__all__ = ["TextCraft"]
