"""What a judge's request costs: an exact count where its tokenizer is known, one token per byte at most where not."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from apportion.resources.protocol import Load
from apportion.resources.sampling import Speller

Messages = list[dict[str, str]]
"""A chat: role and content of each message."""
Count = Callable[[Messages], int]
"""Tokens of a chat as the judge is given it, its format and the beginning of the reply included."""

BYTES_PER_TOKEN = 4.0
"""Of an estimate, where nobody has told; a reservation takes one token per byte, which no tokenizer exceeds."""
FRAME_TOKENS = 64
"""What a chat format may add to the texts of four messages, or to what a tokenizer of ours counts."""
REPEATED = 1000
"""Characters of an unreadable reply that the model is shown again."""
CALLS = 2
"""A reply that cannot be read is answered once with a reminder."""

UNCOUNTED = "the judge did not count its tokens, so the most that they could be was taken"
MISCOUNTED = "the judge's counts of tokens cannot be, so the most that they could be was taken"
OTHERWISE = "the judge counted other tokens of its prompt than its tokenizer does here; its own count was taken"


@dataclass(frozen=True, slots=True)
class Completion:
    """What a chat model wrote, and the tokens it took; None = not told, then the most that they could be."""

    text: str
    prompt_tokens: int | None = None
    generated_tokens: int | None = None


def counter_of(tokenizer: Any) -> Count:
    """Counts by a tokenizer of transformers with a chat template: the object, a folder or a hub name."""
    speller = tokenizer if isinstance(tokenizer, Speller) else Speller(tokenizer)
    return lambda messages: len(speller.chat_ids([(m["role"], m["content"]) for m in messages]))


def load_of(messages: Messages, reminder: str, most: int, expected: float, count: Count | None) -> Load:
    """The first call, and a reservation that also covers the second: the reply, as far as it is shown, and a reminder.

    Args:
        messages: of the first call. reminder: of the second.
        most, expected: tokens of one reply at most, and as a rule.
        count: of chats; None = estimate.
    """
    second = [*messages, {"role": "assistant", "content": ""}, {"role": "user", "content": reminder}]
    first, again = most_read(messages, count), most_read(second, count) + 4 * REPEATED
    read = math.ceil(size_of(messages) / BYTES_PER_TOKEN) if count is None else first - FRAME_TOKENS
    exact = count is not None
    return Load(read, CALLS * most + first - read + again, expected, exact=exact, requests=CALLS, shared=not exact)


def most_read(messages: Messages, count: Count | None) -> int:
    """Tokens of a chat at most."""
    return (size_of(messages) if count is None else count(messages)) + FRAME_TOKENS


def taken(messages: Messages, done: Completion, most: int, count: Count | None) -> tuple[int, int, Sequence[str]]:
    """Prompt and generated tokens of a call, within what was set aside for it, and what is odd about them."""
    bound = most_read(messages, count)
    own = None if count is None else bound - FRAME_TOKENS
    told, wrote = done.prompt_tokens, done.generated_tokens
    notes = [UNCOUNTED] if told is None or wrote is None else []
    prompt, generated = bound if own is None else own, most
    if told is not None and 0 < told <= bound:
        prompt = told
        notes += [OTHERWISE] if own not in (None, told) else []
    elif told is not None:
        notes.append(MISCOUNTED)
    if wrote is not None and 0 <= wrote <= most:
        generated = wrote
    elif wrote is not None:
        notes.append(MISCOUNTED)
    return prompt, generated, notes


def size_of(messages: Messages) -> int:
    """Bytes of all contents."""
    return sum(len(message["content"].encode("utf-8", "surrogatepass")) for message in messages)
