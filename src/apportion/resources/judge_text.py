"""Untrusted text made safe to show: what could end its block, open a role or hide is shown as what it is.

The fence of a block is a line that holds a code nobody can know beforehand, so text cannot close it. What follows is
for readers that do not look closely: lines that resemble a fence, control tokens of chat formats (which tokenizers
honour inside a message), and characters that are invisible or turn the direction of writing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

LESS, MORE = "<\uff1c\ufe64", ">\uff1e\ufe65"
_FENCE = re.compile(rf"(?<![{LESS}])([{LESS}]{{2,}}+)([^\n]{{0,200}}?)([{MORE}]{{2,}})")  # linear: runs are taken whole
_FENCE_WORDS = re.compile(r"begin|end|left out|[0-9a-f]{16}")
_CONTROL = re.compile(
    r"<\s*+[|\uff5c]([^<>\n]{0,80})[|\uff5c]\s*>"  # <|im_start|> and its like
    r"|<(/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|turn|end_of_utterance))>"
    r"|<(<\s*+/?\s*+sys\s*>)>",
    re.IGNORECASE,
)
_BRACKETS = re.compile(
    r"\[(/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|gMASK|IMG))\]", re.IGNORECASE
)
# control characters but tab and newline, marks of direction, invisible spaces, tags and variation selectors that can
# carry hidden text, halves of surrogate pairs
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e"
    "\u2060-\u206f\ufeff\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)

_SHOWN = re.compile(r"\\u\{[0-9a-f]+\}")
"""A hidden character as `clean` shows it."""


def clean(text: str, special: Sequence[str] = ()) -> str:
    """The text with everything that could act shown as what it is.

    Args:
        text: untrusted.
        special: further control tokens, of the judge's own tokenizer.
    """
    return _cleaned(text, tuple(special))


@lru_cache(maxsize=1024)  # a judge that is asked about every step is shown the first ones every time
def _cleaned(text: str, special: tuple[str, ...]) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _HIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)
    text = _FENCE.sub(_unfence, text)
    text = _CONTROL.sub(lambda found: f"‹{next(g for g in found.groups() if g is not None)}›", text)
    text = _BRACKETS.sub(r"‹\1›", text)
    for token in special:
        if token.strip() and token in text:
            text = text.replace(token, f"‹{token.strip('<|>[]')}›")
    return text


def shortened(text: str, longest: int, mark: str) -> str:
    """The text, or its beginning and its end around a line that says how much is missing.

    Args:
        text: of any length. longest: characters that are kept.
        mark: the line, with ``{}`` for the number of characters.
    """
    if len(text) <= longest:
        return text
    tail = longest // 3
    head = longest - tail
    return f"{text[:head]}\n{mark.format(len(text) - longest)}\n{text[len(text) - tail :]}"


def _unfence(found: re.Match[str]) -> str:
    """Angle brackets around what reads like a fence become single ones; anything else stays."""
    folded = unicodedata.normalize("NFKC", _SHOWN.sub("", found[2])).casefold()
    if not _FENCE_WORDS.search(folded):
        return found[0]
    return f"‹{found[2]}›"
