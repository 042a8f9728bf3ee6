"""JSON values of a file one after the other, however they are laid out, in memory that does not grow with it.

Read alike: one value a line, values run together or indented, one list of values (each item is handed out by
itself). A byte-order mark, any line ends and gzip are seen through. A broken value is handed out as the
`FormatError` that names it, and reading goes on at the next line that opens an object or a list.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import zlib
from collections.abc import Callable, Generator
from typing import Any, BinaryIO, NamedTuple

from apportion.data.compress import open_read
from apportion.errors import FormatError

CHUNK = 1 << 16
LONGEST = 1 << 28
"""Characters that one value may have; a file that never closes its brackets must not fill the memory."""

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"[-+.0-9eE]*")
_FRESH_LINE = re.compile(r"\n[{\[]")
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_TAIL = 12  # characters of the longest piece that a cut can fall into: an escaped pair, \ud83d\ude00


class Item(NamedTuple):
    """A value, and where it stands in words."""

    value: Any
    at: str


Items = Generator[Item | FormatError, None, None]


def stream_json(path: str | os.PathLike[str], *, whole: Callable[[Any], bool] | None = None) -> Items:
    """Yield every value of the file; see the module.

    Args:
        path: a file, plain or compressed.
        whole: given the first item of a list, True when the list is one value and not a list of values.

    Raises:
        FormatError: the file cannot be opened, its compressed data are damaged, or a value has no end.
    """
    with open_read(path) as file:
        yield from _walk(_Text(file, path), path, whole or (lambda first: False))


def _walk(text: _Text, path: str | os.PathLike[str], whole: Callable[[Any], bool]) -> Items:
    inside = False  # in a list at the top
    comma = False  # the next thing in it must be a comma
    mended = False  # something was left out, so brackets need not match any more
    number = 0
    while True:
        sign = text.skip_space()
        if not sign:
            if inside and not mended:
                yield FormatError(f"{path}: the list breaks off after {number} items; the file was cut short")
            return
        if inside and sign == "]":
            text.at, inside, comma = text.at + 1, False, False
            continue
        if comma and sign == ",":
            text.at, comma = text.at + 1, False
            continue
        number += 1
        at = f"{path}, item {number} (line {text.line()})" if inside else f"{path}, line {text.line()}"
        try:
            if comma and not mended:
                raise _Broken("no comma between two items", "separate the items of a list by commas")
            if not inside and sign == "[":
                value, inside = text.list_or_first(whole)
                if inside:
                    number = 1
                    at = f"{path}, item 1 (line {text.began})"
            else:
                value = text.value()
        except _Broken as broken:
            inside = inside or sign == "["
            found = text.skip_to_fresh_line()
            lost = "" if found or not inside else ", and nothing behind it can be read"
            mended, comma = True, False
            yield FormatError(f"{at}: {broken.what}{lost}; {broken.remedy}")
            continue
        comma = inside
        yield FormatError(f"{at}: {value}") if isinstance(value, _Flaw) else Item(value, at)


class _Broken(Exception):
    """The text is not JSON here."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.what, self.remedy = what, remedy


class _Flaw(str):
    """What is wrong with a value whose end is known."""

    __slots__ = ()


class _Text:
    """The text of the file, of which only the part under work is held."""

    def __init__(self, file: BinaryIO, path: str | os.PathLike[str]) -> None:
        self.file, self.path = file, path
        self.text, self.at, self.hold = "", 0, -1
        self.began = 1  # line that the value at work began on
        self.ended = False
        self.flawed_bytes = False
        self.twice: str | None = None
        self.decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self.parser = json.JSONDecoder(object_pairs_hook=self._object)
        self._line, self._counted = 1, 0
        self._before = 0  # characters of the first line held that are gone already
        while not self.text and not self.ended:
            self.more()
        if self.text.startswith("\ufeff"):
            self.text = self.text[1:]

    def more(self) -> None:
        """Let go of what is done and read on, as much again as is waiting, so that the work stays linear."""
        done = self.at if self.hold < 0 else self.hold
        self.line(done)
        line_break = self.text.rfind("\n", 0, done)
        self._before = done - line_break - 1 if line_break >= 0 else self._before + done
        self.text = self.text[done:]
        self.at, self._counted = self.at - done, self._counted - done
        self.hold = min(self.hold, 0)
        if len(self.text) > LONGEST:
            raise FormatError(
                f"{self.path}, line {self._line}: a value of more than {LONGEST >> 20} MiB; give one rollout per value"
            )
        try:
            raw = self.file.read(max(CHUNK, len(self.text)))
        except (OSError, EOFError, zlib.error) as error:
            raise FormatError(f"{self.path}: the compressed data are damaged ({error})") from None
        self.ended = not raw
        new = self.decode(raw, self.ended)
        self.flawed_bytes = self.flawed_bytes or _NOT_UTF8.search(new) is not None
        self.text += new

    def line(self, position: int = -1) -> int:
        """Number of the line that the position (default: the present one) is on; positions only grow."""
        position = self.at if position < 0 else position
        if position > self._counted:
            self._line += self.text.count("\n", self._counted, position)
            self._counted = position
        return self._line

    def skip_space(self) -> str:
        """Go to the next character that is not white space and return it; "" at the end."""
        while True:
            match = _SPACE.match(self.text, self.at)
            assert match is not None
            self.at = match.end()
            if self.at < len(self.text):
                return self.text[self.at]
            if self.ended:
                return ""
            self.more()

    def value(self) -> Any:
        """The value here; a `_Flaw` where it ends well but cannot be used."""
        self.began = self.line()
        while True:
            self.twice = None
            try:
                value, end = self.parser.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if self._cut(error):
                    self.more()
                    continue
                raise self._broken(error) from None
            except RecursionError:
                raise _Broken("nested too deep to be read", "flatten it") from None
            except ValueError:
                raise _Broken("a number with thousands of digits", "give it as a string") from None
            if not self.ended and not isinstance(value, dict | list | str) and self._number_may_go_on(end):
                self.more()
                continue
            flaw = self._flaw(end)
            self.at = end
            return value if flaw is None else flaw

    def list_or_first(self, whole: Callable[[Any], bool]) -> tuple[Any, bool]:
        """The list here as one value and False, or its first item and True."""
        self.hold = self.at
        try:
            self.at += 1
            if self.skip_space() == "]":
                self.at += 1
                return _Flaw("an empty list where a rollout was expected; leave it out"), False
            first = self.value()
            if isinstance(first, _Flaw) or not whole(first):
                return first, True
            self.at = self.hold
        finally:
            self.hold = -1
        return self.value(), False

    def skip_to_fresh_line(self) -> bool:
        """Go to the next line that opens an object or a list; False when there is none."""
        while True:
            match = _FRESH_LINE.search(self.text, self.at)
            if match is not None:
                self.at = match.start() + 1
                return True
            if self.ended:
                self.at = len(self.text)
                return False
            self.at = max(self.at, len(self.text) - 1)  # the line break may be the last character
            self.more()

    def _number_may_go_on(self, end: int) -> bool:
        tail = _NUMBER.match(self.text, end)
        return tail is not None and tail.end() == len(self.text)

    def _cut(self, error: json.JSONDecodeError) -> bool:
        """The value may go on in the part of the file that is not read yet."""
        if self.ended:
            return False
        return error.msg.startswith("Unterminated string") or not self.text[error.pos + _TAIL :].strip()

    def _broken(self, error: json.JSONDecodeError) -> _Broken:
        if self.flawed_bytes and error.pos < len(self.text) and _NOT_UTF8.match(self.text, error.pos):
            return _Broken(self._byte(error.pos), "save the file as UTF-8")
        rest = self.text[error.pos :].strip()
        if self.ended and (not rest or error.msg.startswith("Unterminated string")):
            return _Broken("the value breaks off", "the file was cut short, or a bracket is not closed")
        line = self._line + self.text.count("\n", self._counted, error.pos)
        line_break = self.text.rfind("\n", 0, error.pos)
        column = error.pos - line_break + (self._before if line_break < 0 else 0)
        return _Broken(f"not JSON ({error.msg} at line {line}, column {column})", "repair or remove it")

    def _flaw(self, end: int) -> _Flaw | None:
        if self.flawed_bytes:
            match = _NOT_UTF8.search(self.text, self.at, end)
            if match is not None:
                return _Flaw(f"{self._byte(match.start())}; save the file as UTF-8")
        if self.twice is not None:
            return _Flaw(f"the key {self.twice!r} stands twice in one object; keep one")
        return None

    def _byte(self, position: int) -> str:
        return f"byte 0x{ord(self.text[position]) - 0xDC00:02x} is not UTF-8"

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) < len(pairs) and self.twice is None:
            keys = [key for key, _ in pairs]
            self.twice = next(key for k, key in enumerate(keys) if key in keys[:k])
        return out
