"""How numbers, tables and pages are written in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def cell(three: Sequence[float], form: str = ".3f") -> str:
    """Value and interval: ``0.812 (0.780 to 0.843)``."""
    value, low, high = (format(x, form) for x in three)
    return f"{value} ({low} to {high})"


def plain(three: Sequence[float], digits: int = 2) -> str:
    """`cell` with the sign of minus."""
    return minus(cell(three, f".{digits}f"))


def signed(three: Sequence[float], digits: int = 3) -> str:
    """A difference and its interval, bold where the interval leaves out 0."""
    text = minus(cell(three, f"+.{digits}f"))
    return f"**{text}**" if three[1] > 0 or three[2] < 0 else text


def minus(text: str) -> str:
    """Numbers with the sign of minus in place of a hyphen."""
    return text.replace("-", "−")


def table(head: Sequence[str], rows: Iterable[Iterable[str]], *, right: int | None = None) -> str:
    """A table; ``right``: the first column that is aligned to the right, as all behind it."""
    rules = ["---" if right is None or k < right else "---:" for k in range(len(head))]
    return "\n".join([_row(head), f"|{'|'.join(rules)}|", *map(_row, rows)])


def items(said: Iterable[str]) -> str:
    """A list, an item a line."""
    return "\n".join(f"* {one}" for one in said)


def document(*parts: str) -> str:
    """Headings, paragraphs, tables and lists with an empty line between them."""
    return "\n\n".join(parts) + "\n"


def commits(found: Iterable[str]) -> str:
    """The commits that numbers were measured at."""
    named = sorted(set(found))
    return f"commit {named[0]}" if len(named) == 1 else f"commits {', '.join(named)}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
