"""`Skipped`: what a reader left out, counted and named, because a lost rollout is never silent."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

KEEP = 20
"""Reasons that are kept in full; the rest are only counted."""


@dataclass(slots=True)
class Skipped:
    """Records that a reader could not use.

    Pass one as ``skip_bad`` to count into it; ``skip_bad=True`` warns at the end instead.

    Attributes:
        count: records left out.
        reasons: the sentence of each of the first 20, with file and line.
    """

    count: int = 0
    reasons: list[str] = field(default_factory=list)

    def add(self, reason: object) -> None:
        """Count one more."""
        self.count += 1
        if len(self.reasons) < KEEP:
            self.reasons.append(str(reason))

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        if not self.count:
            return "no record skipped"
        records = "1 record" if self.count == 1 else f"{self.count} records"
        more = f"\n  and {self.count - len(self.reasons)} more" if self.count > len(self.reasons) else ""
        return f"{records} skipped:\n  " + "\n  ".join(self.reasons) + more


@contextmanager
def skipping(skip_bad: bool | Skipped) -> Iterator[Skipped | None]:
    """The collector to use, or None where the first bad record is an error; warns at the end for True."""
    if isinstance(skip_bad, Skipped):
        yield skip_bad
    elif skip_bad:
        skipped = Skipped()
        yield skipped
        if skipped:
            warnings.warn(str(skipped), stacklevel=4)
    else:
        yield None
