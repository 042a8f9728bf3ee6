"""For the reference: entries of docstrings that name several things on one line, as one entry for each.

lam, gamma: in [0, 1].            lam: in [0, 1].
on: what it looks at. call: …     gamma: in [0, 1].
                                  on: what it looks at.
                                  call: …
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Class, Extension, Function, Object

SECTION = re.compile(r"^(Args|Attributes):\n((?:(?: {4}.*)?\n)*)", re.M)
HEAD = re.compile(r"(\*{0,2}\w+(?:, \*{0,2}\w+)*): +")


def apart(doc: str, names: set[str]) -> str:
    """The docstring with one entry for each name; text that is no such entry stays as it is.

    Args:
        doc: cleaned docstring.
        names: parameters or attributes; only they begin an entry inside a line.
    """

    def section(found: re.Match[str]) -> str:
        entries = re.split(r"^ {4}(?=\S)", found[2], flags=re.M)[1:]
        out = [f"    {line}\n" for entry in entries for line in _entry(entry, names)]
        return f"{found[1]}:\n{''.join(out)}\n" if entries else found[0]

    return SECTION.sub(section, f"{doc}\n").rstrip("\n")


def _entry(entry: str, names: set[str]) -> list[str]:
    head = HEAD.match(entry)
    if not head:
        return [entry.rstrip()]
    told = {name.lstrip("*"): name for name in head[1].split(", ")}
    pieces = re.split(
        rf"(?<=[.;])\s+(?=(?:{'|'.join(map(re.escape, sorted(names))) or '(?!)'}): )", entry[head.end() :]
    )
    lines = [f"{name}: {pieces[0].strip()}" for name in told.values()]
    return lines + [piece.strip() for piece in pieces[1:]]


class Entries(Extension):
    """What the handler of mkdocstrings loads."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Change the docstring before it is parsed."""
        if obj.docstring is None:
            return
        names: set[str] = set()
        if isinstance(obj, Function):
            names = {parameter.name.lstrip("*") for parameter in obj.parameters}
        elif isinstance(obj, Class):
            names = set(obj.members)
        obj.docstring.value = apart(obj.docstring.value, names)
