"""Ctrl-C in a command, under a name of our own: the option parser would turn it into a plain failure."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Stopped(BaseException):
    """Ctrl-C, with what is left and how to go on where a command knows more than that nothing is half-written."""


def stoppable(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let Ctrl-C in a command reach `run`."""

    @functools.wraps(command)
    def inner(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            raise Stopped from None

    return inner
