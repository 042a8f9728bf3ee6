"""Words stand in for tokens where a log has only text; joined again they give exactly the text."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np

from apportion.numerics import BoolArray, IntArray

_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003fffd"
_WORD = re.compile(rf"\s*(?:[{_IDEOGRAPH}]|[^\s{_IDEOGRAPH}]+)|\s+\Z")


_SIGN = re.compile(f"[{_IDEOGRAPH}]")

_CHUNK = 2**17
"""Characters that are counted at a time: what is computed of them stays in the cache, and is not so large that the
system hands out fresh pages for it each time."""


def words(text: str) -> list[str]:
    """Split at white space (kept in front of its word); scripts without spaces split at every character."""
    return _WORD.findall(text)


def kind_of(character: str) -> str:
    """``space``, ``ideograph`` (a word by itself), or ``plain``."""
    return "space" if character.isspace() else "ideograph" if _SIGN.match(character) else "plain"


def count_words(texts: Sequence[str]) -> IntArray:
    """How many `words` each text has, without making them."""
    length = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    out = np.empty(len(texts), dtype=np.int64)
    end = np.cumsum(length)
    lo = done = 0
    while lo < len(texts):
        hi = max(lo + 1, int(np.searchsorted(end, done + _CHUNK, side="right")))
        out[lo:hi] = _counts(texts[lo:hi], length[lo:hi])
        lo, done = hi, int(end[hi - 1])
    return out


def _counts(texts: Sequence[str], length: IntArray) -> IntArray:
    """A word begins at each ideograph, and where other characters follow white space, an ideograph or nothing.

    White space at the end of a text is one word more. A space before every text and after the last is the nothing.
    """
    joined = " ".join(("", *texts, ""))
    edge = np.cumsum(np.append(0, length + 1))  # places of those spaces
    begins, space = _in_ascii(joined) if joined.isascii() else _in_unicode(joined)
    count: IntArray = np.add.reduceat(begins, edge[:-1], dtype=np.int64)
    count += space[edge[1:] - 1] & (length > 0)
    return count


def _in_ascii(text: str) -> tuple[BoolArray, BoolArray]:
    """Whether a word begins behind a character, and whether that is white space."""
    code = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    control = code.min() < 9 or (code - np.uint8(14)).min() < 14  # what is smaller than 14 wraps to large
    space = _white()[code] if control else code <= 32
    return space[:-1] > space[1:], space


def _in_unicode(text: str) -> tuple[BoolArray, BoolArray]:
    """Whether a word begins at a character, and whether that is white space."""
    code = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    table = _white()
    space = table[np.minimum(code, len(table) - 1)]
    ideograph = np.zeros(len(code), dtype=np.bool_)
    for first, end in _ranges():
        ideograph |= (code >= first) & (code <= end)
    plain = ~(space | ideograph)
    begins = ideograph.copy()
    begins[1:] |= plain[1:] > plain[:-1]
    return begins, space


@functools.cache
def _white() -> BoolArray:
    """Whether a character is white space, up to the last that is, and one that is none."""
    return np.array([chr(code).isspace() for code in range(0x3002)])


@functools.cache
def _ranges() -> tuple[tuple[int, int], ...]:
    return tuple((ord(first), ord(end)) for first, end in re.findall("(.)-(.)", _IDEOGRAPH))
