"""Where a text falls into parts: lines, paragraphs, sentences. Each function gives the offsets at which parts begin.

White space, quotes and brackets that follow the end of a part belong to the part on their left, so every part begins
with something visible. Offset 0 need not be told.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from apportion.errors import ConfigError, DataError, missing_extra

Splitter = Callable[[str], Iterable[int]]
"""Text to the offsets at which its parts begin."""

BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
FENCE = re.compile(r"^[^\S\n]*```.*?(?:^[^\S\n]*```|\Z)", re.DOTALL | re.MULTILINE)
FORMULA = re.compile(
    r"\$\$.{1,4000}?\$\$|\\\[.{1,4000}?\\\]|\\\(.{1,4000}?\\\)|\$(?=\S)[^$\n]{1,4000}(?<=\S)\$(?!\d)", re.DOTALL
)
END = re.compile(r"(?P<mark>[.!?…]+)[\"'”’»)\]*]*(?:\s+|\Z)|[。！？｡]+[”’」』）)]*\s*|\s*\n\s*")
BEFORE = re.compile(r"[\w.]*\Z")
INITIALS = re.compile(r"(?:[A-Za-z]\.)+[A-Za-z]\Z|[A-Z]\Z")
ABBREVIATIONS = frozenset("mr mrs ms dr prof sr jr st vs etc al cf approx resp fig figs eq eqs vol".split())


def lines(text: str) -> Iterator[int]:
    """A part begins after every line break."""
    return (found.end() for found in re.finditer("\n", text))


def paragraphs(text: str) -> Iterator[int]:
    """A part begins after every blank line."""
    return (found.end() for found in BLANK_LINE.finditer(text))


def sentences(text: str) -> Iterator[int]:
    """A part begins after a sentence, by rules that need no package, for scripts with . ! ? … or 。！？ and for lines.

    A full stop does not end a sentence inside a number, after an initial ("J. Smith", "e.g."), after one of
    `ABBREVIATIONS`, or after the number that opens a list item. Fenced code and formulas between dollar signs (or
    ``\\[ \\]``, ``\\( \\)``) are never cut. The rules do not know words: "Is it A. Then" is one sentence to them.
    """
    whole = [found.span() for pattern in (FENCE, FORMULA) for found in pattern.finditer(text)]
    inside = bytearray(len(text) + 1)
    for lo, hi in whole:
        inside[lo + 1 : hi] = b"\1" * (hi - lo - 1)
    for found in END.finditer(text):
        if not inside[found.start()] and not _continues(text, found):
            yield found.end()


def named(name: str) -> Splitter:
    """The sentence splitter of that name: "rules" (`sentences`), "pysbd" or "syntok".

    Raises:
        ConfigError: another name. MissingExtra: the package is not installed.
    """
    known: dict[str, Callable[[], Splitter]] = {"rules": lambda: sentences, "pysbd": _pysbd, "syntok": _syntok}
    if name not in known:
        raise ConfigError(
            f"by_segment('sentence'): no splitter named {name!r}; there are {', '.join(map(repr, known))}, and any "
            "function goes with by='parser'"
        )
    return known[name]()


def _continues(text: str, end: re.Match[str]) -> bool:
    """The mark does not end a sentence."""
    if end["mark"] != "." or "\n" in end[0]:
        return False
    found = BEFORE.search(text, max(0, end.start() - 40), end.start())
    word = found[0] if found else ""
    if word.isdigit():  # "1. First": the number of a list item opens its line
        return text[: end.start() - len(word)].rstrip(" \t").endswith("\n") or end.start() == len(word)
    return bool(INITIALS.match(word)) or word.lower() in ABBREVIATIONS


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as problem:
        package = name.split(".")[0]
        raise missing_extra(f"by_segment('sentence', splitter={package!r})", package, "text") from problem


def _pysbd() -> Splitter:
    segmenter = _package("pysbd").Segmenter(language="en", clean=False)

    def split(text: str) -> Iterator[int]:
        at = 0
        for sentence in segmenter.segment(text):
            found = text.find(sentence, at)
            if found < 0:
                raise DataError(
                    f"pysbd changed the sentence {sentence[:40]!r} instead of finding it; cut with splitter='rules'"
                )
            yield found
            at = found + len(sentence)

    return split


def _syntok() -> Splitter:
    segmenter = _package("syntok.segmenter")

    def split(text: str) -> Iterator[int]:
        for paragraph in segmenter.analyze(text):
            yield from (sentence[0].offset for sentence in paragraph if sentence)

    return split
