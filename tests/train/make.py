"""Policies and an environment small enough to train in a second."""

from random import Random

from apportion.envs import DETERMINISTIC, BaseEnv, EnvSpec, make, register
from apportion.train import TrainConfig
from apportion.train.policy import Policy

SMALL = {"env": "crafttree", "hidden": 16, "layers": 1, "heads": 2, "vocabulary": 300}


@register("tests/copy")
class CopyWord(BaseEnv):
    """Say the word that is shown; free text. Pays 1 for the right word, three tries."""

    WORDS = ("ab", "ba", "abba", "b")

    def __init__(self, *, words: int = 4) -> None:
        super().__init__(
            EnvSpec("tests/copy", (("words", words),), True, False, DETERMINISTIC, 3, True, "1 when right", (0.0, 1.0))
        )
        self.word, self.words = "", words

    def actions(self):
        return None

    def expert(self):
        return [self.word]

    def _accepts(self, action):
        return True

    def _start(self, seed):
        self.word = Random(seed).choice(self.WORDS[: self.words])

    def _observe(self):
        return f"say {self.word} now"

    def _state(self):
        return self.word

    def _apply(self, action):
        return float(action == self.word), action == self.word, action == self.word


def small_policy(window=0, **changes):
    """An untrained policy on the environment of the settings."""
    prompt = {"prompt": "history"} if window is None else {"window": window}
    settings = TrainConfig(**{**SMALL, **prompt, **changes})
    return Policy.from_config(settings, make(settings.env, **settings.env_options))
