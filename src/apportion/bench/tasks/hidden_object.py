"""HiddenObject: ask about a hidden object, then name it; nothing is paid for a good question.

The object is never seen, so the state is the belief: which objects the answers still allow, each equally likely. The
truth is exact in the belief, and what a question was worth is known although no question is ever paid.

Source    Twenty Questions as a belief Markov decision process (Kaelbling et al. 1998).
"""

from __future__ import annotations

from dataclasses import dataclass

from apportion.bench.tasks.registry import register_task
from apportion.errors import ConfigError

FEATURES = ("alive", "flies", "swims", "furry", "heavy")
OBJECTS = {  # object: its features, in the order above, y or n
    "cat": "ynnyn", "bear": "ynnyy", "duck": "yyynn", "bat": "yynyn",
    "whale": "ynynn", "kite": "nynnn", "boat": "nnyny", "stone": "nnnny",
}  # fmt: skip

State = str  # an answer per feature: y, n, or ? where it was not asked


@register_task(
    "hidden_object",
    about="the state is a belief; a question is worth what it tells, and only the guess is paid",
    strengths=(2.0, 8.0),
    small={"horizon": 3, "objects": 4, "features": 2},
)
@dataclass(frozen=True)
class HiddenObject:
    """The rules: ``horizon`` questions and guesses at most; a guess ends the game, and pays 1 if it is right."""

    horizon: int = 4
    objects: int = 8
    features: int = 5
    show_time: bool = False

    def __post_init__(self) -> None:
        if self.horizon < 1 or not 1 <= self.objects <= len(OBJECTS) or not 1 <= self.features <= len(FEATURES):
            raise ConfigError(
                f"hidden_object: horizon {self.horizon}, objects {self.objects}, features {self.features}; give at "
                f"least 1 step, 1 to {len(OBJECTS)} objects and 1 to {len(FEATURES)} features"
            )

    def belief(self, state: State) -> tuple[str, ...]:
        """The objects that the answers allow."""
        return tuple(
            name
            for name in tuple(OBJECTS)[: self.objects]
            if all(told in ("?", has) for told, has in zip(state, OBJECTS[name], strict=False))
        )

    def starts(self) -> list[tuple[float, State]]:
        """Nothing asked."""
        return [(1.0, "?" * self.features)]

    def text(self, state: State, left: int) -> str:
        """The answers so far, which is all there is to know."""
        told = [f"{name} {'yes' if a == 'y' else 'no'}" for name, a in zip(FEATURES, state, strict=False) if a != "?"]
        clock = f" Steps left: {left}." if self.show_time else ""
        return f"I think of {', '.join(tuple(OBJECTS)[: self.objects])}. Told: {', '.join(told) or 'nothing'}.{clock}"

    def actions(self, state: State) -> tuple[str, ...]:
        """Every question not yet asked, and a guess at every object, ruled out or not."""
        asks = [f"ask {name}" for name, a in zip(FEATURES, state, strict=False) if a == "?"]
        return (*asks, *(f"guess {name}" for name in tuple(OBJECTS)[: self.objects]))

    def step(self, state: State, action: str) -> list[tuple[float, State, float, bool]]:
        """An answer as likely as the objects that give it; a guess as right as the belief in it."""
        verb, name = action.split()
        belief = self.belief(state)
        if verb == "guess":
            p = belief.count(name) / len(belief)
            return [(q, state, reward, True) for q, reward in ((p, 1.0), (1.0 - p, 0.0)) if q > 0]
        at = FEATURES.index(name)
        yes = sum(OBJECTS[x][at] == "y" for x in belief) / len(belief)
        answers = ((yes, "y"), (1.0 - yes, "n"))
        return [(q, state[:at] + answer + state[at + 1 :], 0.0, False) for q, answer in answers if q > 0]

    def won(self, state: State, action: str) -> bool:
        """The guess is the only object left."""
        return self.belief(state) == (action.removeprefix("guess "),)
