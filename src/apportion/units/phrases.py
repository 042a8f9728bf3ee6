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
WHITE = tuple(c for c in map(chr, range(0x3001)) if c.isspace() and c != " ")
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
        found = sorted((lo, hi, k) for k, lo, hi in self._found(plain))
        return [Place(self._number[k], _back(lo, moved), _back(hi - 1, moved) + 1) for lo, hi, k in found]

    def covered(self, pieces: Sequence[str]) -> BoolArray:
        """The tokens of one text that overlap a place of some phrase; ``pieces`` are their texts."""
        size = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
        mask = np.zeros(len(pieces), dtype=np.bool_)
        plain, moved = _plain("".join(pieces))
        spans = [(_back(lo, moved), _back(hi - 1, moved) + 1) for _, lo, hi in self._found(plain)]
        if spans:
            edge = np.cumsum(np.append(0, size))
            start, end = np.array(spans, dtype=np.int64).T
            first = np.searchsorted(edge, start, side="right") - 1
            last = np.searchsorted(edge, end, side="left")
            opened = np.zeros(
                len(pieces) + 1, dtype=np.int64
            )  # how many spans begin here, less those that ended before
            np.add.at(opened, first, 1)
            np.add.at(opened, last, -1)
            mask = np.cumsum(opened)[:-1] > 0
        return mask & (size > 0)

    def __len__(self) -> int:
        return len(self._texts)

    def _found(self, plain: str) -> Iterable[tuple[int, int, int]]:
        candidates = self._compiled(plain) if self._automaton is not None else self._by_first_atom(plain)
        end = len(plain)
        for k, lo, hi in candidates:
            clear = (lo == 0 or plain[lo - 1] == " ") and (hi == end or plain[hi] == " ")  # as a rule
            if clear or _whole(plain, lo, hi):
                yield k, lo, hi

    def _compiled(self, plain: str) -> Iterable[tuple[int, int, int]]:
        characters, octets = self._automaton
        found: Iterable[tuple[int, int, int]]
        if plain.isascii():  # then a byte is a character, and the search on bytes is twice as fast
            found = octets.find_matches_as_indexes(plain.encode(), overlapping=True)
        else:
            found = characters.find_matches_as_indexes(plain, overlapping=True)
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
        package = importlib.import_module("ahocorasick_rs")
        return package.AhoCorasick(texts), package.BytesAhoCorasick([text.encode("utf-8") for text in texts])
    except ImportError as problem:
        if engine == "auto":
            return None
        raise missing_extra("Phrases(engine='ahocorasick_rs')", "ahocorasick_rs", "text") from problem


def _plain(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Lower case with single spaces, and where that moved what follows: (place in the result, characters left out)."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter whose small form is longer, like "İ", stays as it is
        lowered = "".join(low if len(low := c.lower()) == 1 else c for c in text)
    for white in WHITE:
        if white in lowered:
            lowered = lowered.replace(white, " ")
    moved: list[tuple[int, int]] = []
    at, double, gone = 0, lowered.find("  "), 0
    out: list[str] = []
    while double >= 0:
        out.append(lowered[at : double + 1])
        at = double + 2
        while at < len(lowered) and lowered[at] == " ":
            at += 1
        gone += at - double - 1
        moved.append((at - gone, gone))
        double = lowered.find("  ", at)
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
