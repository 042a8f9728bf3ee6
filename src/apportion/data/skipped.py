"""`Skipped`: what a reader left out, counted and named, because a lost rollout is never silent."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from apportion.data.trajectory import Trajectory
from apportion.errors import FormatError

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

    def __str__(self) -> str:
        if not self.count:
            return "no record skipped"
        records = "1 record" if self.count == 1 else f"{self.count} records"
        more = f"\n  and {self.count - len(self.reasons)} more" if self.count > len(self.reasons) else ""
        return f"{records} skipped:\n  " + "\n  ".join(self.reasons) + more


def kept(
    items: Generator[Trajectory | FormatError, None, None], path: str | os.PathLike[str], skip_bad: bool | Skipped
) -> Iterator[Trajectory]:
    """The good items of a reader; bad ones are raised, or counted, or warned about at the end.

    Raises:
        FormatError: the first bad item without ``skip_bad``; with it, when nothing but bad items came.
    """
    skipped = skip_bad if isinstance(skip_bad, Skipped) else Skipped()
    good = bad = 0
    first: FormatError | None = None
    with contextlib.closing(items):
        for item in items:
            if not isinstance(item, FormatError):
                good += 1
                yield item
            elif skip_bad is False:
                raise item
            else:
                bad += 1
                first = first or item
                skipped.add(item)
    if bad and not good:
        raise FormatError(f"{path}: none of {bad} records could be read; the first: {first}")
    if bad and skip_bad is True:
        warnings.warn(str(skipped), stacklevel=2)
