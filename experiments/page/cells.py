"""How numbers are written in the tables of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def plain(interval: Sequence[float], digits: int = 2) -> str:
    """Value and interval: ``0.62 (0.58 to 0.66)``."""
    value, low, high = (_number(x, digits) for x in interval)
    return f"{value} ({low} to {high})"


def signed(interval: Sequence[float], digits: int = 3) -> str:
    """A difference and its interval, bold where the interval leaves out 0."""
    value, low, high = interval
    text = f"{_number(value, digits, '+')} ({_number(low, digits, '+')} to {_number(high, digits, '+')})"
    return f"**{text}**" if low > 0 or high < 0 else text


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def commits(found: Iterable[str]) -> str:
    """The commits that numbers were measured at."""
    named = sorted(set(found))
    return f"commit {named[0]}" if len(named) == 1 else f"commits {', '.join(named)}"


def _number(x: float, digits: int, sign: str = "") -> str:
    text = f"{x:{sign}.{digits}f}"
    return text.replace("-", "−")
