"""Twenty Questions: find the hidden object with few questions; only the guess is paid.

    Objects: bat (big, furry), owl (big), pan (metal). Answers: is it big? yes.
    Steps left: 4.

The hidden object is the hidden state; what the answers allow is the belief, on which the optimum is exact (`optimum`).

Source    the game of arXiv:2311.18232 (LMRL-Gym) and arXiv:2402.19446 (ArCHer) on a truth table in place of a model.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

from apportion.envs.commands import CommandEnv, is_text
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.envs.splits import SPLITS, split_of
from apportion.envs.twentyq.optimum import best_question
from apportion.envs.twentyq.truth import TruthTable, generated_table, read_table
from apportion.errors import ConfigError

GUESS = re.compile(r"(?:guess|is it)(?: an?)? (.+?)\??", re.IGNORECASE)


@register("twentyq")
class TwentyQuestions(CommandEnv):
    """Twenty Questions as a text environment.

    Args:
        table: CSV file of a truth table (UCI Zoo's, say); "" = generated truths over real words.
        world: number of the generated table.
        objects: candidates of a task, drawn with the seed from the objects of the split.
        questions: questions before the last step, which can only usefully be a guess.
        show_table: write what is true of each candidate into the observation; else the player has to know it.
        split: "train", "valid", "test" or "all": splits have different objects.
        mode: "choice" among the questions that tell something and the guesses, or "text": "is it big?", "guess owl".
    """

    def __init__(
        self,
        *,
        table: str = "",
        world: int = 0,
        objects: int = 8,
        questions: int = 5,
        show_table: bool = True,
        split: str = "train",
        mode: str = "choice",
    ) -> None:
        options = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        if objects < 2 or questions < 0:
            raise ConfigError(f"twentyq: {objects} objects and {questions} questions; give at least 2 and 0")
        if split not in (*SPLITS, "all"):
            raise ConfigError(f"twentyq: split is {split!r}; it takes {', '.join(SPLITS)} or all")
        super().__init__(
            EnvSpec(
                name="twentyq",
                options=tuple(sorted(options.items())),
                full_state=False,
                shows_time=True,
                noise=DETERMINISTIC,
                max_steps=questions + 1,
                free_text=is_text("twentyq", mode),
                reward="1 for guessing the hidden object; a guess ends the episode; 0 otherwise",
                return_range=(0.0, 1.0),
            )
        )
        self.truth = read_table(table) if table else generated_table(world)
        self._pool = tuple(name for name in self.truth.objects if split in ("all", split_of(name)))
        if len(self._pool) < objects:
            raise ConfigError(f"twentyq: split {split!r} has {len(self._pool)} objects, and a task needs {objects}")
        self._size, self._tell = objects, show_table
        self.task: TruthTable = self.truth
        self.hidden = ""
        self._answers: tuple[tuple[int, bool], ...] = ()

    @property
    def belief(self) -> frozenset[int]:
        """Numbers of the candidates that the answers allow."""
        rows = enumerate(self.task.true)
        return frozenset(o for o, row in rows if all((q in row) is told for q, told in self._answers))

    def commands(self) -> tuple[str, ...]:
        """Questions that were not asked and tell something about the candidates, then the guesses."""
        asked = {q for q, _ in self._answers}
        questions = [text for q, text in enumerate(self.task.questions) if q not in asked]
        return (*questions, *(f"guess {name}" for name in self.task.objects))

    def expert(self) -> list[str]:
        """The optimum's next action; it knows the table, and not the hidden object."""
        self._require_start("expert")
        if self._over:
            return []
        belief = self.belief
        question = best_question(self.task, belief, self.steps_left - 1)
        return [f"guess {self.task.objects[min(belief)]}" if question is None else self.task.questions[question]]

    def _start(self, seed: int) -> None:
        rng = Random(f"twentyq/{seed}")
        self.task = self.truth.only(tuple(rng.sample(self._pool, self._size)))
        self.hidden = rng.choice(self.task.objects)
        self._answers = ()

    def _observe(self) -> str:
        table = self.task
        told = [f"{table.questions[q]} {'yes' if yes else 'no'}" for q, yes in self._answers]
        objects = ", ".join(self._described(o) for o in range(len(table.objects)))
        return f"Objects: {objects}. Answers: {', '.join(told) or 'none'}.\nSteps left: {self.steps_left}."

    def _described(self, o: int) -> str:
        true = [self.task.questions[q] for q in sorted(self.task.true[o])]
        words = ", ".join(re.sub(r"^is (it|its) |\?$", "", question) for question in true)
        return f"{self.task.objects[o]} ({words or 'nothing'})" if self._tell else self.task.objects[o]

    def _state(self) -> str:
        return f"{self.hidden} of {', '.join(self.task.objects)}; asked {self._answers}"

    def _accepts(self, action: str) -> bool:
        return self._read(action) is not None

    def _read(self, action: str) -> int | str | None:
        """The number of a question, or the name of an object; None for anything else."""
        if not self._spec.free_text and action not in self.commands():
            return None
        lower = action.lower()
        known = {text.lower(): q for q, text in enumerate(self.task.questions)}
        if lower in known:
            return None if known[lower] in dict(self._answers) else known[lower]
        found = GUESS.fullmatch(action)
        names = {name.lower(): name for name in self.task.objects}
        return names.get(found[1].lower()) if found else None

    def _apply(self, action: str) -> tuple[float, bool, bool]:
        meant = self._read(action)
        if isinstance(meant, str):
            right = meant == self.hidden
            return float(right), True, right
        assert meant is not None
        row = self.task.true[self.task.objects.index(self.hidden)]
        self._answers = (*self._answers, (meant, meant in row))
        return 0.0, False, False

    def _save(self) -> Any:
        return self.task, self.hidden, self._answers

    def _load(self, state: Any) -> None:
        self.task, self.hidden, self._answers = state
