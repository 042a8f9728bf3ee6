"""The text of each token, from a tokenizer that decodes sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

BROKEN = "\ufffd"
LONGEST = 16
"""Tokens that are waited for a whole character; it has four at most, but a text may hold replacement signs itself."""


def token_texts(decode: Callable[[Sequence[int]], str]) -> Callable[[Sequence[int]], list[str]]:
    """What each token adds to the text, as `by_segment` takes it: ``decode=token_texts(tokenizer.decode)``.

    A token decoded alone is not its text: half a character becomes a replacement sign, so that no 。 is found in it,
    and some tokenizers drop the space in front. Here every token is decoded behind its neighbours. A character of
    several tokens is the text of the first, the others have none. Joined, the texts are ``decode(ids)``.

    Args:
        decode: ids to text, e.g. of transformers or tokenizers; two calls on a few ids for each token.
    """

    def texts(ids: Sequence[int]) -> list[str]:
        out = [""] * len(ids)
        behind = start = 0  # where the neighbours begin, and the token whose text comes next
        for end in range(1, len(ids) + 1):
            text = decode(ids[behind:end])
            if text.endswith(BROKEN) and end - start < LONGEST and end < len(ids):
                continue
            out[start] = text[len(decode(ids[behind:start])) :] if start > behind else text
            behind, start = start, end
        return out

    return texts
