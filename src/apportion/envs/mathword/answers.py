"""Whether an answer is right: numbers are compared exactly, everything else by the library math-verify."""

from __future__ import annotations

import re
import threading
from fractions import Fraction

from apportion.errors import MissingExtra, missing_extra

NUMBER = re.compile(r"[-+]?\$?\d[\d,]*(?:\.\d+)?(?:\s*/\s*\d+)?")
MARKUP = re.compile(r"[\\^]")
LONGEST = 300  # characters of an answer that is parsed
EXPLODES = re.compile(r"\^[^a-zA-Z=,]{0,12}\^|\^\{?\s*\d{4,}|\d{4,}\s*!|!\s*!")  # powers nobody should work out
MARKS = ("####", "Answer:", "answer is")


def final_answer(response: str) -> str:
    r"""The answer that a response ends on: of the last \boxed{…}, after the last mark, else its last number or line.

    Marks are ``####``, ``Answer:`` and ``answer is``.
    """
    boxed = _last_boxed(response)
    if boxed is not None:
        return boxed
    at = max((response.rfind(mark) + len(mark) for mark in MARKS if mark in response), default=-1)
    if at >= 0:
        line = response[at:].strip().splitlines()
        return line[0].strip().rstrip(".") if line else ""
    numbers = NUMBER.findall(response)
    lines = response.strip().splitlines()
    return numbers[-1] if numbers else lines[-1].strip() if lines else ""


def number(text: str) -> Fraction | None:
    """The number that a text is, thousands separators and a dollar sign aside; None for anything else."""
    bare = text.strip().strip("$").replace(",", "").replace("$", "").replace(" ", "")
    try:
        return Fraction(bare)
    except (ValueError, ZeroDivisionError):
        return None


def is_right(given: str, wanted: str) -> bool:
    """Whether two answers are the same.

    Where a plain number is wanted, a plain number is compared exactly, also one with a unit behind it; what else may
    be equal (a root, a fraction in TeX) counts where math-verify is installed.

    Raises:
        MissingExtra: no plain number is wanted, and math-verify is not installed.
    """
    a, b = number(given), number(wanted)
    if b is not None and a is None and len(found := NUMBER.findall(given)) == 1 and not MARKUP.search(given):
        a = number(found[0])
    if a is not None and b is not None:
        return a == b
    if given.strip() == wanted.strip():
        return True
    if len(given) > LONGEST or EXPLODES.search(given) or (b is not None and not MARKUP.search(given)):
        return False
    try:
        checker()
    except MissingExtra:
        if b is None:
            raise
        return False
    return _verified(given, wanted)


def checker() -> None:
    """Make sure that math-verify is there.

    Raises:
        MissingExtra: it is not.
    """
    try:
        import math_verify  # noqa: F401
    except ImportError as error:
        raise missing_extra("checking answers that are no plain numbers", "math-verify", "math") from error


def _verified(given: str, wanted: str) -> bool:
    from math_verify import parse, verify

    # Its timers are signals, which only the main thread can set.
    timer = 3 if threading.current_thread() is threading.main_thread() else None
    gold, answer = (parse(f"${text}$", parsing_timeout=timer) for text in (wanted, given))
    return bool(verify(gold, answer, timeout_seconds=timer))


def _last_boxed(text: str) -> str | None:
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, at = 1, start + len("\\boxed{")
    for end in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if not depth:
            return text[at:end].strip()
    return None
