"""What a server says when it does not answer: a sentence that is safe to show, and how long it wants to be left."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

LONGEST_REASON = 200
"""Characters of a server's own words that a sentence of ours repeats."""
LONGEST_WAIT_S = 600.0
"""A server that asks for a longer wait is not waited for any longer."""


def kind_of(problem: Exception) -> str:
    """Why, in the words of the library, or its name for it where it has none."""
    return (str(problem).strip() or type(problem).__name__)[:LONGEST_REASON]


def without(value: Any, secrets: Sequence[str]) -> Any:
    """A text, or JSON with all its texts, in which no secret stands; one inside another goes with the longer."""
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, "***")
        return value
    if isinstance(value, list):
        return [without(item, secrets) if isinstance(item, str | list | dict) else item for item in value]
    if isinstance(value, dict):
        return {without(name, secrets): without(item, secrets) for name, item in value.items()}
    return value


def reason_in(data: bytes, clean: Callable[[str], str] = str) -> str:
    """What the server says about an error, in one line.

    Args:
        data: the body. clean: takes out what nobody may see, before the line is cut short.
    """
    text = data[:65536].decode("utf-8", "replace")
    try:
        body = json.loads(text)
        told = body.get("error", body.get("message", body.get("detail", ""))) if isinstance(body, dict) else body
        told = told.get("message", "") if isinstance(told, dict) else told
        text = told if isinstance(told, str) else json.dumps(told)
    except (ValueError, RecursionError):
        text = "" if "<" in text else text  # a page of a proxy tells nothing
    line = " ".join("".join(c if c.isprintable() else " " for c in clean(text)).split())
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 1] + "…"


def wait_in(headers: Mapping[str, str]) -> float:
    """Seconds that the server wants us to wait: a number or a date."""
    told = headers.get("retry-after", "").strip()
    try:
        seconds = float(told)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(told).timestamp() - time.time()
        except (ValueError, TypeError):
            return 0.0
    return min(max(seconds, 0.0), LONGEST_WAIT_S) if seconds == seconds else 0.0
