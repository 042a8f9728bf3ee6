"""The texts that take a context's place in a `Logprob`: our own wording, which a user can replace.

Ours lie beside this file as ``wording/NAME.txt``. A parameter takes such a name, or a text of the user's own with named
slots (`apportion.asks.Logprob`).
"""

from __future__ import annotations

import functools
import pkgutil
import re
from collections.abc import Sequence

from apportion.errors import ConfigError

SLOTS = ("prompt", "context", "outcome", "reference")
"""Slots that whoever answers fills in."""

OURS = ("better", "worse", "hindsight", "answer")
"""Names of our own texts."""

_SLOT = re.compile(r"\{(\w*)\}")


def frame_of(who: str, key: str, given: str, *, also: Sequence[str] = ()) -> str:
    """The text behind a parameter.

    Args:
        who: the method. key: its parameter. given: a name of `OURS`, or a text.
        also: slots that the method fills in itself.

    Raises:
        ConfigError: an unknown name, a slot that nobody fills, a text without the context.
    """
    text = _ours(given) if given in OURS else given
    slots = _SLOT.findall(text)
    takes = (*SLOTS, *also)
    if unknown := [slot for slot in slots if slot not in takes]:
        raise ConfigError(
            f"{who}: {key} has the slot {{{unknown[0]}}}, which nobody fills; it takes "
            + ", ".join(f"{{{slot}}}" for slot in takes)
        )
    if not {"prompt", "context"} & set(slots):
        short = given if len(given) <= 40 else f"{given[:39]}…"
        raise ConfigError(
            f"{who}: {key} is {short!r}; give {' or '.join(map(repr, OURS))}, or a text with the slot {{context}} in it"
        )
    return text


@functools.cache
def _ours(name: str) -> str:
    data = pkgutil.get_data(__package__ or "apportion.methods", f"wording/{name}.txt")
    assert data is not None
    return data.decode("utf-8").replace("\r\n", "\n")
