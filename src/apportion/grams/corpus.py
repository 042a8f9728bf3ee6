"""A corpus: a text in each line, ``{"text": "First we ..."}``; what stands beside it is not read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from apportion.data.compress import open_read
from apportion.errors import FormatError

OF_ROLLOUTS = ("steps", "messages", "schema")


def is_corpus(path: str | os.PathLike[str]) -> bool:
    """The first line holds a text, and nothing of a rollout."""
    if not os.path.isfile(path):
        return False
    with open_read(path) as file:
        first = file.readline()
    try:
        record = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(record, dict) and isinstance(record.get("text"), str) and not any(k in record for k in OF_ROLLOUTS)
    )


def read_corpus(path: str | os.PathLike[str], *, bad: list[str] | None = None) -> Iterator[str]:
    """The texts of a file, plain or compressed, one after the other; empty lines are passed over.

    Args:
        path: JSON lines.
        bad: takes a sentence for each broken line, which is then left out.

    Raises:
        FormatError: a broken line (file, line, reason), unless ``bad`` is given.
    """
    with open_read(path) as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
                reason = "" if isinstance(record, dict) and isinstance(record.get("text"), str) else "no 'text' in it"
            except (ValueError, RecursionError) as problem:
                reason = f"not JSON ({str(problem)[:80]})"
            if not reason:
                yield record["text"]
                continue
            sentence = f'{path}: line {number}: {reason}; write {{"text": "First we ..."}}'
            if bad is None:
                raise FormatError(sentence)
            bad.append(sentence)
