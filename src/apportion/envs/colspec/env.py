"""ColSpec: somebody wants a function and has told part of it; ask, then write it; hidden unit tests decide.

    Wanted: a shipping fee for x kilograms.
    Form: if x {compare} {limit} then {base} + {rate} * x else {base}
    compare: Does the limit itself count? One of >=, >
    limit: From which weight on is there a surcharge? It is 5.

The human answers by rule and says the truth. What a question is worth is exact (`wishes.value_of_asking`). What is
written is an expression of a small language that is interpreted here; nothing is executed.

Source    after ColBench of arXiv:2503.15478 (SWEET-RL), written anew: no data and no model of it is used.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

from apportion.envs.colspec.wishes import WISHES, Wish, behaviour, best_program, success, value_of_asking
from apportion.envs.commands import CommandEnv, is_text
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.envs.splits import SPLITS, split_of
from apportion.errors import ConfigError, DataError

ASK = re.compile(r"ask (?:about )?(?:the )?(\w+)\??")
REWARDS = {
    "all": "1 if every hidden unit test passes; writing ends the episode; 0 otherwise",
    "share": "the share of hidden unit tests that pass; writing ends the episode",
}


@register("colspec")
class ColSpec(CommandEnv):
    """Hidden requirements as a text environment.

    Args:
        questions: questions before the last step, which can only usefully be the answer.
        told: how many points are told from the start.
        reward: "all" pays for passing all tests, "share" the share that passes.
        split: "train", "valid", "test" or "all": splits want different functions.
        mode: "choice" among `ask POINT` and `write EXPRESSION` with each expression that fits what is known; "text":
            any expression of the language.
    """

    def __init__(
        self, *, questions: int = 4, told: int = 1, reward: str = "all", split: str = "train", mode: str = "choice"
    ) -> None:
        options = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        if reward not in REWARDS:
            raise ConfigError(f"colspec: reward is {reward!r}; it takes {' or '.join(REWARDS)}")
        if questions < 0 or told < 0:
            raise ConfigError(f"colspec: {questions} questions and {told} points told; give 0 or more")
        if split not in (*SPLITS, "all"):
            raise ConfigError(f"colspec: split is {split!r}; it takes {', '.join(SPLITS)} or all")
        super().__init__(
            EnvSpec(
                name="colspec",
                options=tuple(sorted(options.items())),
                full_state=False,
                shows_time=True,
                noise=DETERMINISTIC,
                max_steps=questions + 1,
                free_text=is_text("colspec", mode),
                reward=REWARDS[reward],
                return_range=(0.0, 1.0),
            )
        )
        self._tasks = [
            (wish, values)
            for wish in WISHES
            for values in wish.all_values()
            if split in ("all", split_of(f"{wish.name} {values}"))
        ]
        self._told, self._shares = told, reward == "share"
        self.wish: Wish = WISHES[0]
        self.hidden: tuple[str, ...] = ()
        self.known: tuple[str | None, ...] = ()

    def commands(self) -> tuple[str, ...]:
        """Questions about open points, and `write` with each program that the known points allow."""
        asks = [f"ask {name}" for name, value in zip(self.wish.names, self.known, strict=True) if value is None]
        return (*asks, *(f"write {program}" for program in self.programs()))

    def programs(self) -> tuple[str, ...]:
        """Programs that fit what is known."""
        fitting = [
            values
            for values in self.wish.all_values()
            if all(k in (None, v) for k, v in zip(self.known, values, strict=True))
        ]
        return tuple(dict.fromkeys(self.wish.program(values) for values in fitting))

    def expert(self) -> list[str]:
        """The best next action; it knows what may be wanted, and not what is."""
        self._require_start("expert")
        if self._over:
            return []
        left = self.steps_left - 1
        open_ = [name for name, value in zip(self.wish.names, self.known, strict=True) if value is None]
        if left and open_ and success(self.wish, self.known, left) > success(self.wish, self.known) + 1e-12:
            return [f"ask {max(open_, key=lambda p: value_of_asking(self.wish, self.known, p, left))}"]
        return [f"write {best_program(self.wish, self.known)}"]

    def reference(self) -> str:
        """The function that is wanted."""
        self._require_start("reference")
        return self.wish.program(self.hidden)

    def _start(self, seed: int) -> None:
        rng = Random(f"colspec/{seed}")
        self.wish, self.hidden = rng.choice(self._tasks)
        shown = set(rng.sample(range(len(self.hidden)), min(self._told, len(self.hidden))))
        self.known = tuple(value if at in shown else None for at, value in enumerate(self.hidden))

    def _observe(self) -> str:
        lines = [f"Wanted: {self.wish.about}.", f"Form: {self.wish.form}"]
        for (name, question, values), value in zip(self.wish.points, self.known, strict=True):
            answer = f"It is {value}" if value is not None else f"One of: {', '.join(values)}"
            lines.append(f"{name}: {question} {answer}")
        return "\n".join([*lines, f"Steps left: {self.steps_left}"])

    def _state(self) -> str:
        return f"{self.wish.name} {self.hidden} known {self.known}"

    def _accepts(self, action: str) -> bool:
        if not self._spec.free_text:
            return action in self.commands()
        return action.startswith("write ") or self._asked(action) is not None

    def _asked(self, action: str) -> int | None:
        found = ASK.fullmatch(action.lower())
        if found is None or found[1] not in self.wish.names:
            return None
        at = self.wish.names.index(found[1])
        return at if self.known[at] is None else None

    def _apply(self, action: str) -> tuple[float, bool, bool]:
        at = self._asked(action)
        if at is not None:
            self.known = (*self.known[:at], self.hidden[at], *self.known[at + 1 :])
            return 0.0, False, False
        wanted = behaviour(self.wish.program(self.hidden))
        try:
            given = behaviour(action.removeprefix("write ").strip())
        except DataError:
            return 0.0, True, False  # a program that cannot be read passes no test
        passed = sum(a == b for a, b in zip(given, wanted, strict=True))
        right = passed == len(wanted)
        return (passed / len(wanted) if self._shares else float(right)), True, right

    def _save(self) -> Any:
        return self.wish, self.hidden, self.known

    def _load(self, state: Any) -> None:
        self.wish, self.hidden, self.known = state
