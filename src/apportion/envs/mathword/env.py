"""MathWord: a problem, one response, and a check of the answer it ends on; credit lies within the response.

    Ada has 7 pens. Ada gets 3 bags with 4 pens each. How many pens does Ada have now?

Problems are generated, reasoning-gym's, or those of GSM8K's and MATH-500's files.

Source    arXiv:2110.14168 (GSM8K, MIT), arXiv:2305.20050 (MATH-500, MIT), reasoning-gym (Apache-2.0).
"""

from __future__ import annotations

from random import Random
from typing import Any

from apportion.envs.commands import CommandEnv, is_text
from apportion.envs.mathword.answers import checker, final_answer, is_right, number
from apportion.envs.mathword.sources import Problem, generated_problem, gym_dataset, gym_problem, read_problems
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.envs.splits import SPLITS, at_seed, choose_split
from apportion.errors import ConfigError

NEAR = (1, 2, 3, 4, 5, 6, 8, 10, 12, 20)  # how far wrong choices are off
STREAM = {"train": 0, "valid": 1, "test": 2, "all": 3}  # generated problems of splits have seeds of their own


@register("mathword")
class MathWord(CommandEnv):
    """Problems as a text environment of one step.

    Args:
        source: "generated", "reasoning-gym:NAME" (the extra of that name), or "file" with ``data``.
        data: GSM8K's or MATH-500's JSONL, plain or packed with xz.
        steps: of a generated problem.
        split: "train", "valid", "test" or "all". A file with splits of its own is best played with "all".
        mode: "text", or "choice" among four whole numbers, one of them right (problems with whole answers alone).
    """

    def __init__(
        self, *, source: str = "generated", data: str = "", steps: int = 3, split: str = "train", mode: str = "text"
    ) -> None:
        options = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        kind, _, self._dataset = source.partition(":")
        if kind not in ("generated", "reasoning-gym", "file") or (kind == "reasoning-gym") is not bool(self._dataset):
            raise ConfigError(f"mathword: source is {source!r}; it takes generated, reasoning-gym:NAME or file")
        if (kind == "file") is not bool(data):
            raise ConfigError(f"mathword: source is {source!r} and data {data!r}; give data with source 'file'")
        if split not in (*SPLITS, "all") or steps < 1:
            raise ConfigError(f"mathword: split is {split!r}, steps {steps}; splits are {', '.join(SPLITS)} or all")
        super().__init__(
            EnvSpec(
                name="mathword",
                options=tuple(sorted(options.items())),
                full_state=True,
                shows_time=False,
                noise=DETERMINISTIC,
                max_steps=1,
                free_text=is_text("mathword", mode),
                reward="1 for a response that ends on the right answer; 0 otherwise",
                return_range=(0.0, 1.0),
            )
        )
        self._split, self._length = split, steps
        self._stored: tuple[Problem, ...] = ()
        if kind == "file":
            found = {p.name: p for p in read_problems(data) if self._spec.free_text or _whole(p.answer)}
            self._stored = tuple(found[name] for name in choose_split("mathword", found, split))
            if any(number(problem.answer) is None for problem in self._stored):
                checker()
        elif kind == "reasoning-gym":
            gym_dataset(self._dataset)
        self.problem: Problem = generated_problem(0)

    @property
    def tasks(self) -> int | None:
        """How many problems the split has; None: without end."""
        return len(self._stored) or None

    def commands(self) -> tuple[str, ...]:
        """Four whole numbers, ascending, the right one among them; in free text the right one alone."""
        right = number(self.problem.answer)
        if self._spec.free_text or right is None or right.denominator != 1:
            return (self.problem.answer,)
        rng = Random(f"mathword/{self.problem.name}")
        below = rng.randrange(4)  # so that its place among the four tells nothing
        wrong = [int(right) - n for n in rng.sample(NEAR, below)] + [
            int(right) + n for n in rng.sample(NEAR, 3 - below)
        ]
        return tuple(map(str, sorted([int(right), *wrong])))

    def expert(self) -> list[str]:
        """The worked solution, or in choice mode the answer."""
        self._require_start("expert")
        if self._over:
            return []
        return [self.problem.solution if self._spec.free_text else str(number(self.problem.answer))]

    def _start(self, seed: int) -> None:
        if self._stored:
            self.problem = at_seed(self._stored, seed)
            return
        own = seed * len(STREAM) + STREAM[self._split]
        for again in range(1000):
            self.problem = self._generate(own + again * 4_000_000)
            if self._spec.free_text or _whole(self.problem.answer):
                return
        raise ConfigError(f"mathword: {self._dataset} has no whole answers to choose from; set mode to 'text'")

    def _generate(self, seed: int) -> Problem:
        return gym_problem(self._dataset, seed) if self._dataset else generated_problem(seed, steps=self._length)

    def _observe(self) -> str:
        return self.problem.text

    def _state(self) -> str:
        return self.problem.text

    def _accepts(self, action: str) -> bool:
        return bool(action) if self._spec.free_text else action in self.commands()

    def _apply(self, action: str) -> tuple[float, bool, bool]:
        if self._dataset and self._spec.free_text:
            made = gym_dataset(self._dataset)
            item = made[int(self.problem.name.rsplit("/", 1)[1]) % len(made)]
            right = made.score_answer(final_answer(action), item) >= 1
        else:
            right = is_right(final_answer(action), self.problem.answer)
        return float(right), True, right

    def _save(self) -> Any:
        return (self.problem,)

    def _load(self, state: Any) -> None:
        (self.problem,) = state


def _whole(answer: str) -> bool:
    found = number(answer)
    return found is not None and found.denominator == 1
