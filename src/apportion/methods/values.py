"""Whether a parameter's value can be meant: read off the signature, before any work is done.

The annotation says the kind: ``bool``, ``int``, ``float``, ``str``, ``Sequence`` of these, ``X | Y``; any other is left
to the method. A number is finite, and what some names mean is the same in every method: see `RANGES`.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from apportion.errors import ConfigError

RANGES: Mapping[str, tuple[float, float, str]] = {
    "gamma": (0.0, 1.0, "a number from 0 to 1"),
    "lam": (0.0, 1.0, "a number from 0 to 1"),
    "turn_gamma": (0.0, 1.0, "a number from 0 to 1"),
    "ddof": (0, 1, "0 (population) or 1 (sample)"),
    "epsilon": (0.0, math.inf, "a number of at least 0"),
    "floor": (0.0, math.inf, "a number of at least 0"),
}
"""Parameters that mean the same in every built-in method: smallest and largest value, and how to say so."""

LARGEST = 1e100
"""Beyond it a factor would overflow; nobody means it."""

_WORDS = {bool: "True or False", int: "a whole number", float: "a finite number", str: "a text", type(None): "None"}


@functools.lru_cache(maxsize=512)
def annotations_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The kind of each keyword parameter, where its annotation can be told."""
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):  # a name that exists for the type checker only
        return {}
    keyword = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    return {name: hints[name] for name in keyword if name in hints}


def check_value(who: str, name: str, value: Any, kind: Any, *, ranges: Mapping[str, tuple[float, float, str]]) -> None:
    """Raise one sentence unless the value is of the kind, finite, and in the range of its name.

    Args:
        who: the method.
        name: the parameter. value: what was given. kind: its annotation, None if there is none.
        ranges: see `RANGES`.
    """
    if not _fits(value, kind):
        raise ConfigError(f"{who}: {name} is {_short(value)}; give {_said(kind)}")
    if name in ranges and isinstance(value, int | float) and not isinstance(value, bool):
        low, high, words = ranges[name]
        if not low <= value <= high:
            raise ConfigError(f"{who}: {name} is {value!r}; give {words}")


def plain(value: Any) -> Any:
    """NumPy's scalars and rows as Python's own, so that a record can be written and read again."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return tuple(value.tolist())
    return value


def _fits(value: Any, kind: Any) -> bool:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, one) for one in typing.get_args(kind))
    if origin is Sequence:
        (of,) = typing.get_args(kind)
        return isinstance(value, list | tuple) and all(_fits(item, of) for item in value)
    if kind is float:
        real = isinstance(value, int | float) and not isinstance(value, bool)
        return real and bool(abs(value) <= LARGEST)  # false for NaN and for integers that are no float
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    if kind in _WORDS:
        return isinstance(value, kind)
    return True


def _said(kind: Any) -> str:
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_said(one) for one in typing.get_args(kind))
    if origin is Sequence:
        (of,) = typing.get_args(kind)
        return f"a list, each entry {_said(of)}"
    return _WORDS.get(kind, str(kind))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
