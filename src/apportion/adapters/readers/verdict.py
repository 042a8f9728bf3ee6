"""The outcome that was asked for: ``FIELD``, or ``FIELD=WORD`` where words stand for success and failure."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from apportion.errors import ConfigError

MOST_WORDS = 12
"""Words of a field that are told apart."""
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.I | re.A)
_FLAGS = {"true": 1.0, "false": 0.0}


class Verdict(NamedTuple):
    """Which field is the outcome.

    Attributes:
        field: its name, with dots for fields inside fields.
        word: what counts as 1, everything else being 0; None = the field holds numbers, or true and false.
    """

    field: str
    word: str | None


def verdict_of(asked: str) -> Verdict:
    """Take ``FIELD`` or ``FIELD=WORD`` apart.

    Raises:
        ConfigError: a half is empty.
    """
    field, equals, word = asked.partition("=")
    if not field or (equals and not word):
        raise ConfigError(f"the outcome {asked!r} has an empty half; give FIELD, or FIELD=WORD where it holds words")
    return Verdict(field, word if equals else None)


def number_in(text: str) -> float | None:
    """The number that a text is, true being 1 and false 0; None where it is a word."""
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) else _FLAGS.get(text.lower())


def refuse_words(path: str, field: str, words: dict[str, Any]) -> None:
    """Raise for a field of words without the word that is 1."""
    told = ", ".join(map(repr, words))
    raise ConfigError(
        f"{path}: {field} holds words, not numbers ({told}); give {field}=WORD as the outcome: WORD is 1, any other 0"
    )
