"""Phrases that plan, found in texts: the starter list, prepared once."""

from __future__ import annotations

from functools import cache

from apportion.grams import starter
from apportion.units.phrases import Phrases, Place


@cache
def starter_phrases() -> tuple[list[str], Phrases]:
    """The phrases of the list that comes with the library, and what finds them."""
    phrases = starter().phrases
    return phrases, Phrases(phrases)


def words_covered(text: str, places: list[Place]) -> int:
    """Words of a text that lie in a phrase; overlapping places count once."""
    covered, end = 0, 0
    for place in places:
        if place.end > end:
            covered += len(text[max(place.start, end) : place.end].split())
            end = place.end
    return covered
