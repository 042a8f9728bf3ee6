"""From phrases to token ids, in every spelling in which a tokenizer may meet them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from apportion.grams.lists import GramList


def encode(grams: GramList, encoder: Callable[[str], Sequence[int]], *, name: str = "") -> GramList:
    """The same list with token ids.

    A phrase is encoded as it stands, with a capital letter, in capitals of every word, and each of these also after a
    space, because vocabularies tell "let", " let", "Let" and " Let" apart; a list of exact ids that misses one of them
    misses every sentence that begins with it.

    Args:
        grams: phrases.
        encoder: text to ids without special tokens, e.g.
            ``lambda text: tokenizer.encode(text, add_special_tokens=False)``.
        name: of the tokenizer, for the provenance.
    """
    coded = []
    for gram in grams.grams:
        ids = dict.fromkeys(tuple(int(i) for i in encoder(spelled)) for spelled in _spellings(gram.text))
        coded.append(replace(gram, ids=tuple(one for one in ids if one)))
    return GramList(tuple(coded), {**grams.provenance, "tokenizer": name or getattr(encoder, "__name__", "unnamed")})


def _spellings(text: str) -> Iterator[str]:
    for spelled in dict.fromkeys((text, text[:1].upper() + text[1:], text.title())):
        yield spelled
        yield " " + spelled
