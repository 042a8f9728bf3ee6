"""Words stand in for tokens where a log has only text; joined again they give exactly the text."""

from __future__ import annotations

import re

_IDEOGRAPH = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003fffd"
_WORD = re.compile(rf"\s*(?:[{_IDEOGRAPH}]|[^\s{_IDEOGRAPH}]+)|\s+\Z")


def words(text: str) -> list[str]:
    """Split at white space (kept in front of its word); scripts without spaces split at every character."""
    return _WORD.findall(text)
