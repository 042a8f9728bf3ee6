"""Word n-grams of texts: lower case, inside one sentence, not across punctuation, without digits."""

from __future__ import annotations

import re
from collections.abc import Iterator

WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
ONLY_SPACE = re.compile(r"[^\S\n]*\Z|[^\S\n]*\n[^\S\n]*\Z")


def ngrams(text: str, shortest: int, longest: int) -> Iterator[str]:
    """Every n-gram of every run of words; a run ends at whatever is neither a word nor space, and at a blank line."""
    for run in runs(text.lower()):
        for n in range(shortest, longest + 1):
            for k in range(len(run) - n + 1):
                yield " ".join(run[k : k + n])


def runs(text: str) -> Iterator[list[str]]:
    """Words that follow each other with nothing but space in between (one line break is space)."""
    run: list[str] = []
    at = 0
    for word in WORD.finditer(text):
        gap = text[at : word.start()]
        if run and not ONLY_SPACE.match(gap):
            yield run
            run = []
        run.append(word[0])
        at = word.end()
    if run:
        yield run
