"""Finding phrases in text, all in one pass: case and white space do not matter, words are whole.

    "Let me  check" is found in "let\\nme check:" but not in "outlet me check" or "let me checkmate"

The package ``ahocorasick_rs`` (extra ``text``) makes it faster and finds the same.
"""

from __future__ import annotations

import importlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from apportion.errors import ConfigError, DataError, missing_extra
from apportion.numerics import BoolArray

_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003fffd"
ATOM = re.compile(rf"[{_IDEOGRAPH}]|[^\W{_IDEOGRAPH}]+|[^\w\s]")
LETTER = re.compile(rf"[^\W{_IDEOGRAPH}]")
ODD_SPACE = re.compile(r"\s{2,}|[^\S ]")
ENGINES = ("auto", "ahocorasick_rs", "stdlib")


class Place(NamedTuple):
    """Phrase number and the characters it covers, ``text[start:end]``."""

    phrase: int
    start: int
    end: int


class Phrases:
    """A set of phrases, prepared for searching.

    Args:
        phrases: texts; equal ones (but for case and white space) are one phrase, named by the first.
        engine: "ahocorasick_rs", "stdlib", or "auto", which takes the first if it is installed. All find the same.

    Raises:
        DataError: a phrase without anything visible. MissingExtra: the engine is not installed.
    """

    def __init__(self, phrases: Iterable[str], *, engine: str = "auto") -> None:
        if engine not in ENGINES:
            raise ConfigError(f"Phrases: engine is {engine!r}; give one of {', '.join(map(repr, ENGINES))}")
        number: dict[str, int] = {}
        for k, phrase in enumerate(phrases):
            if not isinstance(phrase, str) or not phrase.strip():
                raise DataError(f"phrase {k} is {phrase!r}; give text with something visible in it")
            number.setdefault(_plain(phrase.strip())[0], k)
        self._texts = tuple(number)
        self._number = tuple(number.values())
        self._automaton = _automaton(engine, self._texts)
        self._by_atom: dict[str, list[int]] = {}
        for k, text in enumerate(self._texts):
            found = ATOM.match(text)
            assert found is not None
            self._by_atom.setdefault(found[0], []).append(k)

    def places(self, text: str) -> list[Place]:
        """Every place of every phrase, overlapping ones included, by start and end."""
        plain, moved = _plain(text)
        candidates = self._compiled(plain) if self._automaton is not None else self._by_first_atom(plain)
        found = sorted((lo, hi, k) for k, lo, hi in candidates if _whole(plain, lo, hi))
        return [Place(self._number[k], _back(lo, moved), _back(hi - 1, moved) + 1) for lo, hi, k in found]

    def covered(self, pieces: Sequence[str]) -> BoolArray:
        """The tokens of one text that overlap a place of some phrase; ``pieces`` are their texts."""
        edge = np.cumsum([0, *(len(piece) for piece in pieces)])
        mask = np.zeros(len(pieces), dtype=np.bool_)
        for place in self.places("".join(pieces)):
            first = int(np.searchsorted(edge, place.start, side="right")) - 1
            mask[first : int(np.searchsorted(edge, place.end, side="left"))] = True
        return mask & (np.diff(edge) > 0)

    def __len__(self) -> int:
        return len(self._texts)

    def _compiled(self, plain: str) -> Iterable[tuple[int, int, int]]:
        found: Iterable[tuple[int, int, int]] = self._automaton.find_matches_as_indexes(plain, overlapping=True)
        return found

    def _by_first_atom(self, plain: str) -> Iterable[tuple[int, int, int]]:
        for atom in ATOM.finditer(plain):
            for k in self._by_atom.get(atom[0], ()):
                if plain.startswith(self._texts[k], atom.start()):
                    yield k, atom.start(), atom.start() + len(self._texts[k])


def _automaton(engine: str, texts: Sequence[str]) -> Any:
    if engine == "stdlib" or not texts:
        return None
    try:
        return importlib.import_module("ahocorasick_rs").AhoCorasick(texts)
    except ImportError as problem:
        if engine == "auto":
            return None
        raise missing_extra("Phrases(engine='ahocorasick_rs')", "ahocorasick_rs", "text") from problem


def _plain(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Lower case with single spaces, and where that moved what follows: (place in the result, characters left out)."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter whose small form is longer, like "İ", stays as it is
        lowered = "".join(low if len(low := c.lower()) == 1 else c for c in text)
    out: list[str] = []
    moved: list[tuple[int, int]] = []
    at = gone = 0
    for space in ODD_SPACE.finditer(lowered):
        out += (lowered[at : space.start()], " ")
        at = space.end()
        if space.end() - space.start() > 1:
            gone += space.end() - space.start() - 1
            moved.append((space.end() - gone, gone))
    return ("".join(out) + lowered[at:] if out else lowered), moved


def _back(place: int, moved: list[tuple[int, int]]) -> int:
    """The place in the text as given."""
    k = bisect_right(moved, (place, len(moved) + 2**60)) - 1
    return place + (moved[k][1] if k >= 0 else 0)


def _whole(plain: str, lo: int, hi: int) -> bool:
    """No letter of a word that goes on beyond the place; scripts without spaces have no such words."""
    left = lo > 0 and LETTER.match(plain[lo]) and LETTER.match(plain[lo - 1])
    right = hi < len(plain) and LETTER.match(plain[hi - 1]) and LETTER.match(plain[hi])
    return not left and not right
