"""Lines of JSON read by pysimdjson (extra ``fast``), where it surely gives what the standard library gives.

Number arrays go to NumPy without a Python object for each number, which is most of the time of a file with token ids.
Where the two parsers may part, the answer is None and the standard library has the word, also about what is wrong:
a name that stands twice or holds a NUL, a list inside a list of numbers, half a surrogate pair, an integer beyond 64
bits, NaN.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from apportion.numerics import Array

VARIABLE = "APPORTION_SIMDJSON"
"""Environment variable: ``0`` reads with the standard library alone."""

_TYPES = {
    "ids": "i",
    "prompt_ids": "i",
    "logp": "d",
    "ref_logp": "d",
    "entropy": "d",
    "token_values": "d",
}
_FREE = {"extra", "rewards", "columns"}
_BOM, _BRACKET, _BACKSLASH, _ESCAPED_BRACKET = b"\xef\xbb\xbf", b"[", b"\\", b"\\u005"
_LARGEST = 2.0**63


def fast_lines() -> FastLines | None:
    """A reader of lines; None where pysimdjson is not installed or switched off."""
    if os.environ.get(VARIABLE, "") == "0":
        return None
    try:
        package = importlib.import_module("simdjson")
    except ImportError:
        return None
    return FastLines(package)


class FastLines:
    """Reads one line after the other into memory that it keeps, as much as the longest line needs."""

    def __init__(self, package: Any) -> None:
        self._parser = package.Parser()
        self._object: Any = package.Object
        self._array: Any = package.Array
        self._brackets = 0

    def record(self, line: bytes) -> dict[str, Any] | None:
        """What `json.loads` gives, token columns as arrays; None where that is not certain, or no trajectory."""
        if line.startswith(_BOM):
            return None
        try:
            return self._record(line)
        except Exception:  # whatever it is, the standard library finds it again and says where
            return None

    def _record(self, line: bytes) -> dict[str, Any]:
        top = self._parser.parse(line)
        names = _sure(list(top))
        steps = top["steps"]
        if not isinstance(steps, self._array):
            raise _Doubt
        self._brackets = 1
        record: dict[str, Any] = {name: self._value(top[name]) for name in names if name != "steps"}
        if len(record) + 1 != len(names):
            raise _Doubt
        if len(steps) and "ids" in steps[0]:
            record["steps"] = [self._with_ids(step) for step in steps]
            # A list inside a list of numbers comes back flat; its bracket stands in the line and was not met here.
            escaped = _BACKSLASH in line and _ESCAPED_BRACKET in line  # one byte is found fast
            if self._brackets != _count(line, _BRACKET) or escaped:
                raise _Doubt
        else:
            record["steps"] = self._without_ids(list(steps))
        return record

    def _without_ids(self, steps: list[Any]) -> list[dict[str, Any]]:
        out: list[dict[str, Any]] = [step.as_dict() for step in steps]
        if sum(map(len, out)) != sum(map(len, steps)):
            raise _Doubt
        for name in _FREE & set(_sure(set().union(*out))):
            for given, step in zip(out, steps, strict=True):
                if name in given:
                    given[name] = self._value(step[name])
        return out

    def _with_ids(self, step: Any) -> dict[str, Any]:
        out: dict[str, Any] = {}
        names = _sure(list(step))
        for name in names:
            value, kind = step[name], _TYPES.get(name)
            if name == "columns" and isinstance(value, self._object):
                out[name] = {key: self._numbers(value[key], "d") for key in _sure(list(value))}
                if len(out[name]) != len(value):
                    raise _Doubt
            else:
                out[name] = self._value(value) if kind is None else self._numbers(value, kind)
        if len(out) != len(names):
            raise _Doubt
        return out

    def _numbers(self, values: Any, kind: str) -> Any:
        if not isinstance(values, self._array):
            return self._value(values)
        self._brackets += 1
        dtype = np.int64 if kind == "i" else np.float64
        if not len(values):
            return np.empty(0, dtype)
        array: Array = np.frombuffer(values.as_buffer(of_type=kind), dtype=dtype)
        if kind == "d" and not array.max() < _LARGEST:  # integers that NumPy may not take as numbers
            raise _Doubt
        return array

    def _value(self, value: Any) -> Any:
        """Python's own values, a name that stands twice refused."""
        if isinstance(value, self._object):
            out = {}
            for name in _sure(list(value)):
                self._brackets += name.count("[")
                out[name] = self._value(value[name])
            if len(out) != len(value):
                raise _Doubt
            return out
        if isinstance(value, self._array):
            self._brackets += 1
            return [self._value(item) for item in value]
        if type(value) is str:
            self._brackets += value.count("[")
        return value


def _count(line: bytes, sign: bytes) -> int:
    """How often a rare sign stands in a line: eight times as fast as `bytes.count`, which looks at every byte."""
    count, at = 0, line.find(sign)
    while at >= 0:
        count, at = count + 1, line.find(sign, at + 1)
    return count


def _sure(names: Any) -> Any:
    """Names that can be looked up: one with a NUL in it would be looked up by what stands before that."""
    if "\0" in "".join(names):
        raise _Doubt
    return names


class _Doubt(Exception):
    """The standard library has to say what this line is."""
