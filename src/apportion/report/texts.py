"""Texts of a report: each distinct one once, and what a step says in words or in token ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from apportion.data import Step
from apportion.errors import DataError

Decode = Callable[[Sequence[int]], Sequence[str]]
"""Text of each token id, e.g. ``lambda ids: [tokenizer.decode([i]) for i in ids]``."""


class Texts:
    """A list in which each distinct text stands once; calling it with a text gives the text's position."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._at: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        at = self._at.setdefault(text, len(self.all))
        if at == len(self.all):
            self.all.append(text)
        return at


def action_of(step: Step, decode: Decode | None) -> str:
    """What the policy wrote: decoded where ids are truth and can be read, else the text, else the ids as signs."""
    if step.ids is not None and (decode is not None or step.action is None):
        return "".join(pieces_of_ids(step.ids, decode))
    return step.action or ""


def context_of(step: Step, decode: Decode | None) -> str:
    """What was new before it."""
    if step.observation is not None:
        return step.observation
    return "" if step.prompt_ids is None else "".join(pieces_of_ids(step.prompt_ids, decode))


def pieces_of_ids(ids: Any, decode: Decode | None) -> list[str]:
    """Text of each id; ⟨17⟩ where nobody can say.

    Raises:
        DataError: decode gave another number of texts.
    """
    if decode is None:
        return [f"⟨{i}⟩" for i in ids]
    pieces = [str(piece) for piece in decode([int(i) for i in ids])]
    if len(pieces) != len(ids):
        raise DataError(f"report: decode gave {len(pieces)} texts for {len(ids)} ids; give one per id")
    return pieces


def short(value: float) -> float:
    """Six significant digits."""
    return float(f"{value:.6g}")
