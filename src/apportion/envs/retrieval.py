"""BM25 over a closed list of documents, by the library bm25s; equal scores go by position, so results never vary."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from apportion.errors import missing_extra

WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Lower-case words and numbers."""
    return WORD.findall(text.lower())


class Index:
    """Documents to search.

    Args:
        documents: their texts.
        k1, b: of BM25; the defaults are those of Lucene's scorer in Anserini.

    Raises:
        MissingExtra: bm25s is not installed.
    """

    def __init__(self, documents: Sequence[str], *, k1: float = 0.9, b: float = 0.4) -> None:
        try:
            import bm25s
        except ImportError as error:
            raise missing_extra("search", "bm25s", "search") from error
        tokens = [words(text) for text in documents]
        self._known = {word for listed in tokens for word in listed}
        self._scorer: Any = bm25s.BM25(k1=k1, b=b, method="lucene")
        self._scorer.index(tokens, show_progress=False)
        self.search = lru_cache(maxsize=4096)(self._search)

    def _search(self, query: str, most: int) -> tuple[int, ...]:
        """Positions of the best documents that share a word with the query, best first."""
        asked = [word for word in words(query) if word in self._known]
        if not asked:
            return ()
        scores = self._scorer.get_scores(asked)
        ranked = sorted((-float(score), k) for k, score in enumerate(scores) if score > 0)
        return tuple(k for _, k in ranked[:most])
