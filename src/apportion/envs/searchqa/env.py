"""Search QA: answer a question by searching a closed corpus, one paragraph leading to the next.

    Question: Who is the mayor of the city where Bakelo Works has its seat?
    search Bakelo Works: Bakelo Works: Bakelo Works is a company that makes kites. Its seat is Radeno.
    Steps left: 3.

The observation is the question with all that was found, so it is the full state.

Source    the tags of arXiv:2503.09516 (Search-R1); published questions are HotpotQA's (arXiv:1809.09600, CC BY-SA 4.0).
"""

from __future__ import annotations

import re
import string
from functools import lru_cache
from typing import Any

from apportion.envs.commands import CommandEnv, is_text
from apportion.envs.protocol import DETERMINISTIC, EnvSpec
from apportion.envs.registry import register
from apportion.envs.retrieval import Index
from apportion.envs.searchqa.corpus import Corpus, generated_corpus, read_corpus
from apportion.envs.splits import at_seed, choose_split
from apportion.errors import ConfigError

TAGGED = re.compile(r"(?:<think>.*?</think>\s*)?<(search|answer)>(.*?)</\1>", re.DOTALL)
PLAIN = re.compile(r"(search|answer)\s+(.+)", re.DOTALL)
ARTICLES = re.compile(r"\b(a|an|the)\b")
SHOWN = 400  # characters of a paragraph


@register("searchqa", extra="search")
class SearchQA(CommandEnv):
    """Search QA as a text environment.

    Args:
        data: HotpotQA's questions as JSON; "" = generated ones over a generated corpus.
        world: number of the generated corpus.
        split: "train", "valid", "test" or "all": of the questions.
        results: paragraphs that a search shows.
        max_steps: searches and the answer.
        mode: "text": ``<search>…</search>`` and ``<answer>…</answer>``, with a ``<think>…</think>`` before them if
            wanted, or `search …` and `answer …`; "choice" (generated corpus alone): names that were seen.
    """

    def __init__(
        self,
        *,
        data: str = "",
        world: int = 0,
        split: str = "train",
        results: int = 2,
        max_steps: int = 5,
        mode: str = "choice",
    ) -> None:
        options = {key: value for key, value in locals().items() if key not in ("self", "__class__")}
        free = is_text("searchqa", mode)
        if data and not free:
            raise ConfigError(
                "searchqa: published questions have no list of answers to choose from; set mode to 'text'"
            )
        if results < 1:
            raise ConfigError(f"searchqa: results is {results}; a search shows at least one paragraph")
        super().__init__(
            EnvSpec(
                name="searchqa",
                options=tuple(sorted(options.items())),
                full_state=True,
                shows_time=True,
                noise=DETERMINISTIC,
                max_steps=max_steps,
                free_text=free,
                reward="1 for the right answer (case, articles and punctuation aside); answering ends the episode",
                return_range=(0.0, 1.0),
            )
        )
        self.corpus: Corpus = read_corpus(data) if data else generated_corpus(world)
        self._index = _index(self.corpus)
        by_name = {question.name: question for question in self.corpus.questions}
        self._questions = [by_name[name] for name in choose_split("searchqa", by_name, split)]
        self._results = results
        self.question = self._questions[0]
        self._found: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def tasks(self) -> int:
        """How many questions the split has."""
        return len(self._questions)

    def commands(self) -> tuple[str, ...]:
        """A search for each name that was seen, and each as an answer; of published questions the expert's alone."""
        if not self.corpus.names:
            return tuple(self._advice())
        seen = f"{self.question.text} {self._findings()}"
        names = [name for name in self.corpus.names if name in seen]
        searched = {query for query, _ in self._found}
        searches = [f"search {name}" for name in names if name not in searched]
        return (*searches, *(f"answer {name}" for name in names))

    def expert(self) -> list[str]:
        """The paragraphs that the question takes, one after the other, then the answer."""
        self._require_start("expert")
        return [] if self._over else self._advice()

    def _advice(self) -> list[str]:
        searched = {query for query, _ in self._found}
        due = [f"search {title}" for title in self.question.needs if title not in searched]
        return [*due[: self.steps_left - 1], f"answer {self.question.answer}"]

    def _start(self, seed: int) -> None:
        self.question, self._found = at_seed(self._questions, seed), ()

    def _observe(self) -> str:
        return f"Question: {self.question.text}\n{self._findings()}Steps left: {self.steps_left}."

    def _findings(self) -> str:
        lines = []
        for query, hits in self._found:
            shown = " ".join(f"{title}: {text[:SHOWN]}" for title, text in (self.corpus.paragraphs[k] for k in hits))
            lines.append(f"search {query}: {shown or 'nothing found'}\n")
        return "".join(lines)

    def _state(self) -> str:
        return f"{self.question.name} {self._found}"

    def _accepts(self, action: str) -> bool:
        return self._read(action) is not None if self._spec.free_text else action in self.commands()

    def _read(self, action: str) -> tuple[str, str] | None:
        found = TAGGED.fullmatch(action) or PLAIN.fullmatch(action)
        return (found[1], found[2].strip()) if found and found[2].strip() else None

    def _apply(self, action: str) -> tuple[float, bool, bool]:
        read = self._read(action)
        assert read is not None
        kind, given = read
        if kind == "answer":
            right = plain(given) == plain(self.question.answer)
            return float(right), True, right
        self._found = (*self._found, (given, self._index.search(given, self._results)))
        return 0.0, False, False

    def _save(self) -> Any:
        return self.question, self._found

    def _load(self, state: Any) -> None:
        self.question, self._found = state


@lru_cache(maxsize=4)
def _index(corpus: Corpus) -> Index:
    return Index([f"{title} {title} {text}" for title, text in corpus.paragraphs])


def plain(text: str) -> str:
    """An answer without case, punctuation, articles and spare blanks."""
    bare = "".join(sign for sign in text.lower() if sign not in string.punctuation)
    return " ".join(ARTICLES.sub(" ", bare).split())
