"""Finding phrases in text, all in one pass: case and white space do not matter, words are whole.

    "Let me  check" is found in "let\\nme check:" but not in "outlet me check" or "let me checkmate"

The package ``ahocorasick_rs`` (extra ``text``) makes it faster and finds the same.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, AnyStr, NamedTuple

import numpy as np

from apportion.errors import ConfigError, DataError, missing_extra
from apportion.numerics import Array, BoolArray, IntArray

_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003fffd"
ATOM = re.compile(rf"[{_IDEOGRAPH}]|[^\W{_IDEOGRAPH}]+|[^\w\s]")
LETTER = re.compile(rf"[^\W{_IDEOGRAPH}]")
WHITE = tuple(c for c in map(chr, range(0x3001)) if c.isspace() and c != " ")
LARGEST_TABLE = 1 << 14
"""Bytes of all phrases together up to which the automaton is one table, twice as fast: up to 1 kB for each of them."""
Moved = IntArray
"""(stretches, 2): where a stretch begins in the result, and how many characters were left out before it."""
_MARK = "\0"
_HALF = re.compile("[\ud800-\udfff]")
_LOWER = bytes(ord(" ") if c < 128 and chr(c).isspace() else c for c in range(256)).lower()
_IN_WORD = np.array([c < 128 and LETTER.match(chr(c)) is not None for c in range(256)])
_NONE = (np.zeros(0, dtype=np.int64),) * 3
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
            number.setdefault(_text(_plain(phrase.strip())[0]), k)
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
        phrase, start, end = self._found(plain)
        order = np.lexsort((phrase, end, start))
        numbers = np.array(self._number, dtype=np.int64)[phrase[order]]
        columns = numbers, _back(start[order], moved), _back(end[order] - 1, moved) + 1
        # The constructor of a named tuple is a Python function, and dearer than the search.
        return list(map(partial(tuple.__new__, Place), zip(*(column.tolist() for column in columns), strict=True)))

    def covered(self, pieces: Sequence[str]) -> BoolArray:
        """The tokens of one text that overlap a place of some phrase; ``pieces`` are their texts."""
        plain, moved, ends = _joined(pieces)
        _, start, end = self._found(plain)
        first = np.searchsorted(ends, _back(start, moved), side="right")
        size = np.searchsorted(ends, _back(end - 1, moved), side="right") + 1 - first
        token = np.repeat(first - np.cumsum(size) + size, size) + np.arange(size.sum())
        mask = np.zeros(len(pieces), dtype=np.bool_)
        mask[token] = ends[token] > np.where(token > 0, ends[token - 1], 0)  # an empty one overlaps nothing
        return mask

    def __len__(self) -> int:
        return len(self._texts)

    def _found(self, plain: str | bytes) -> tuple[IntArray, IntArray, IntArray]:
        """Phrase, start and end of every place, in no order; bytes are text of ASCII alone."""
        if not self._texts:
            return _NONE
        found = self._candidates(plain)
        candidates = np.fromiter(chain.from_iterable(found), dtype=np.int64, count=3 * len(found)).reshape(-1, 3)
        phrase, start, end = candidates.T
        if isinstance(plain, bytes):
            code = np.frombuffer(plain, dtype=np.uint8)
            good = ~(_inside(code, start) | _inside(code, end))
        else:
            good = np.array([_whole(plain, lo, hi) for _, lo, hi in found], dtype=np.bool_)
        return phrase[good], start[good], end[good]

    def _candidates(self, plain: str | bytes) -> list[tuple[int, int, int]]:
        if self._automaton is None:
            return list(self._by_first_atom(_text(plain)))
        characters, octets = self._automaton
        automaton = octets if isinstance(plain, bytes) else characters
        if isinstance(plain, str):
            plain = _HALF.sub("\ufffd", plain)  # UTF-8 has no form of half a surrogate pair; the places stay
        found: list[tuple[int, int, int]] = automaton.find_matches_as_indexes(plain, overlapping=True)
        return found

    def _by_first_atom(self, plain: str) -> Iterable[tuple[int, int, int]]:
        for atom in ATOM.finditer(plain):
            for k in self._by_atom.get(atom[0], ()):
                if plain.startswith(self._texts[k], atom.start()):
                    yield k, atom.start(), atom.start() + len(self._texts[k])


def _automaton(engine: str, texts: Sequence[str]) -> Any:
    """What finds the texts in a string, and what finds them in bytes; None for the standard library."""
    if engine == "stdlib" or not texts:
        return None
    try:
        package = importlib.import_module("ahocorasick_rs")
    except ImportError as problem:
        if engine == "auto":
            return None
        raise missing_extra("Phrases(engine='ahocorasick_rs')", "ahocorasick_rs", "text") from problem
    octets = [text.encode("utf-8") for text in texts]
    table = package.Implementation.DFA if sum(map(len, octets)) <= LARGEST_TABLE else None
    return package.AhoCorasick(texts), package.BytesAhoCorasick(octets, implementation=table)


def _joined(pieces: Sequence[str]) -> tuple[str | bytes, Moved, IntArray]:
    """`_plain` of the pieces end to end, and where each ends in them: the marks say it faster than a length of each."""
    joined = _MARK.join(pieces)
    if joined.isascii():
        octets = joined.encode("ascii") + _MARK.encode("ascii")
        ends = np.flatnonzero(np.frombuffer(octets, dtype=np.uint8) == ord(_MARK))
        if len(ends) == len(pieces):  # else a piece has the mark in it
            ends -= np.arange(len(ends))
            return *_single(octets.translate(_LOWER, _MARK.encode("ascii"))), ends
    return *_plain("".join(pieces)), np.cumsum(np.array(list(map(len, pieces)), dtype=np.int64))


def _plain(text: str) -> tuple[str | bytes, Moved]:
    """Lower case with single spaces, and where that moved what follows; as bytes where they are the characters."""
    if text.isascii():
        octets = text.lower().encode("ascii")
        code = np.frombuffer(octets, dtype=np.uint8)
        return _single(octets.translate(_LOWER) if (code < ord(" ")).any() else octets)
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter whose small form is longer, like "İ", stays as it is
        lowered = "".join(low if len(low := c.lower()) == 1 else c for c in text)
    for white in WHITE:
        if white in lowered:
            lowered = lowered.replace(white, " ")
    return _single(lowered)


def _single(text: AnyStr) -> tuple[AnyStr, Moved]:
    """One space for several; (places in the result, characters left out before them)."""
    if isinstance(text, bytes):  # looking for two of them takes longer where single ones abound
        space = np.frombuffer(text, dtype=np.uint8) == ord(" ")
        if not (space[1:] & space[:-1]).any():
            return text, np.zeros((1, 2), dtype=np.int64)
    one = text[:0] + (b" " if isinstance(text, bytes) else " ")
    moved: list[tuple[int, int]] = [(0, 0)]
    at, found, gone = 0, text.find(one + one), 0
    out: list[AnyStr] = []
    while found >= 0:
        out.append(text[at : found + 1])
        at = found + 2
        while text[at : at + 1] == one:
            at += 1
        gone += at - found - 1
        moved.append((at - gone, gone))
        found = text.find(one + one, at)
    out.append(text[at:])
    return text[:0].join(out), np.array(moved)


def _text(plain: str | bytes) -> str:
    return plain.decode("ascii") if isinstance(plain, bytes) else plain


def _back(places: IntArray, moved: Moved) -> IntArray:
    """The places in the text as given."""
    if len(moved) == 1:
        return places
    stretch = np.searchsorted(moved[:, 0], places, side="right") - 1
    out: IntArray = places + moved[stretch, 1]
    return out


def _inside(code: Array, places: IntArray) -> BoolArray:
    """Whether a place between two characters is inside a word."""
    within = (places > 0) & (places < len(code))
    at = places[within]
    out = np.zeros(len(places), dtype=np.bool_)
    out[within] = _IN_WORD[code[at - 1]] & _IN_WORD[code[at]]
    return out


def _whole(plain: str, lo: int, hi: int) -> bool:
    """No letter of a word that goes on beyond the place; scripts without spaces have no such words."""
    left = lo > 0 and LETTER.match(plain[lo]) and LETTER.match(plain[lo - 1])
    right = hi < len(plain) and LETTER.match(plain[hi - 1]) and LETTER.match(plain[hi])
    return not left and not right
