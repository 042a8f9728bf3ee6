"""Questions that take more than one search. `env` is the game, `corpus` what is searched."""

from apportion.envs.searchqa.env import SearchQA

__all__ = ["SearchQA"]
