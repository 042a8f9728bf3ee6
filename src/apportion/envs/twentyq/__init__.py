"""Twenty Questions on a truth table. `env` is the game, `optimum` its exact solution."""

from apportion.envs.twentyq.env import TwentyQuestions

__all__ = ["TwentyQuestions"]
