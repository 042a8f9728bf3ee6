"""Ctrl-C in a command, under a name of our own: the option parser would turn it into a plain failure."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


class Stopped(BaseException):
    """Ctrl-C."""


def stoppable(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let Ctrl-C in a command reach `run`."""

    @functools.wraps(command)
    def inner(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            raise Stopped from None

    return inner
