"""An environment that hides a letter: two turns, each may say it; what was hidden is in no prompt."""

from random import Random

from apportion.envs import DETERMINISTIC, BaseEnv, EnvSpec, register


@register("tests/whisper")
class Whisper(BaseEnv):
    """Pays the share of turns that say the hidden letter. ``marker`` stands beside the letter in the reference."""

    def __init__(self, *, marker: str = "", text: bool = False) -> None:
        options = (("marker", marker), ("text", text))
        super().__init__(
            EnvSpec("tests/whisper", options, False, True, DETERMINISTIC, 2, text, "the share", (0.0, 1.0))
        )
        self.marker, self.text, self.letter, self.said = marker, text, "", ""

    def actions(self):
        return None if self.text else ("say a", "say b", "say nothing at all")

    def reference(self):
        return f"{self.marker}{self.letter}"

    def _accepts(self, action):
        return True

    def _start(self, seed):
        self.letter, self.said = Random(seed).choice("ab"), ""

    def _observe(self):
        return f"turn {self.steps}: say a letter"

    def _state(self):
        return f"{self.letter}{self.said}"

    def _apply(self, action):
        self.said += action[-1:]
        return float(action == f"say {self.letter}") / 2, False, False
