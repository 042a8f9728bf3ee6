"""ALFWorld's household games, played by rules of our own: `player` is the game, `env` the environment."""

from apportion.envs.alfworld.env import Alfworld

__all__ = ["Alfworld"]
