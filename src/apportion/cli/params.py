"""Free options of a method: ``--gamma 0.9 --scale std`` becomes ``{"gamma": 0.9, "scale": "std"}``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

from apportion.errors import ConfigError


def method_params(arguments: Sequence[str]) -> dict[str, Any]:
    """Read ``--name value`` and ``--name=value`` pairs; a value that is not a literal is text.

    Raises:
        ConfigError: something that is not such a pair.
    """
    out: dict[str, Any] = {}
    for name, value in named(arguments, "parameters of the method"):
        key = name.replace("-", "_")
        if key in out:
            raise ConfigError(f"--{name} is given twice; give it once")
        out[key] = literal(value)
    return out


def named(arguments: Sequence[str], what: str) -> Iterator[tuple[str, str]]:
    """Name and text of each ``--name value`` and ``--name=value``; ``what``: that they are, for the sentence.

    Raises:
        ConfigError: something that is not such a pair.
    """
    rest = list(arguments)
    while rest:
        token = rest.pop(0)
        if not token.startswith("--") or len(token) < 3:
            raise ConfigError(f"unexpected argument {token!r}; {what} are written --name value")
        name, equals, value = token[2:].partition("=")
        if not equals:
            if not rest:
                raise ConfigError(f"--{name} needs a value, like --{name} 0.9")
            value = rest.pop(0)
        yield name, value


def literal(value: str) -> Any:
    """A number, True, False, None or a list of those; anything else is the text itself.

    ``none`` is a text: many parameters take that word (``--scale none``).
    """
    lowered = value.strip().lower()
    if lowered in ("true", "false"):
        return lowered == "true"
    if value.strip() in ("None", "null"):
        return None
    try:
        found = ast.literal_eval(value)  # literals only; nothing is evaluated
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    return found if isinstance(found, bool | int | float | str | list | tuple) else value


def cut_of(text: str) -> tuple[str, dict[str, Any]]:
    """A level of units and the options of its cut: ``step``, or ``segment(by='fixed', count=4)``.

    Raises:
        ConfigError: it cannot be read so.
    """
    from apportion.assign.expression import Leaf, parse
    from apportion.units import CUTS

    try:
        node = parse(text)
    except ConfigError:  # its sentence is about methods
        node = None
    if not isinstance(node, Leaf):
        shown = text if len(text) <= 80 else text[:79] + "…"
        raise ConfigError(
            f"cannot read the unit {shown!r}; write one of {', '.join(CUTS)}, with its options in brackets and text in "
            "quotes: --unit \"segment(by='sentence')\""
        )
    return node.name, dict(node.params)
