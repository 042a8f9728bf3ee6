"""Text that came from outside, made safe to look at: what a terminal or a reader's eye would obey is written out."""

from __future__ import annotations

import re

LINES, CHARACTERS = 6, 600
"""What is shown of an action unless everything is asked for."""

_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb]"
)


def visible(text: str) -> str:
    """The text with everything a terminal might obey written out: ESC as ␛, a direction mark as ⟨U+202E⟩.

    Line breaks and tabs stay.
    """
    return _UNSEEN.sub(_sign, text)


def one_line(text: str, most: int = 160) -> str:
    """The beginning of a text on one line."""
    line = " ".join(visible(text[: 4 * most]).split())
    return line if len(line) <= most and len(text) <= 4 * most else line[:most] + "…"


def shortened(text: str, full: bool) -> str:
    """The whole text, or its first lines with a count of what is missing."""
    shown = visible(text)
    if full:
        return shown
    cut = "\n".join(shown[:CHARACTERS].split("\n")[:LINES])
    return cut if len(cut) == len(shown) else f"{cut} … ({len(shown) - len(cut):,} more characters)"


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"
