"""`ReadReport`: what a reader found, what it left out and what the file could not tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from apportion.data.skipped import Skipped

KINDS = 200
"""Kinds of remarks that are told apart; a file that names a million fields must not fill the report."""

LINES = 20
"""Files that get a line each in the remarks."""


@dataclass(slots=True)
class ReadReport:
    """Fills up while the trajectories are read. ``records == trajectories + skipped.count`` when all are.

    Attributes:
        path: the file or folder, as given.
        files: each file that was read, with its format and why it was taken for that.
        passed_over: files of a folder that no reader knows, with what they look like.
        records: rollouts in the files, broken ones included.
        trajectories: those that were handed on. steps: their steps.
        skipped: those that were left out, with reasons.
        notes: what was not known or not kept, each with how often.
    """

    path: str
    files: list[tuple[str, str, str]] = field(default_factory=list)
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    records: int = 0
    trajectories: int = 0
    steps: int = 0
    skipped: Skipped = field(default_factory=Skipped)
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def formats(self) -> tuple[str, ...]:
        """Names of the formats, in order of appearance."""
        return tuple(dict.fromkeys(name for _, name, _ in self.files))

    def note(self, sentence: str, times: int = 1) -> None:
        """Count something that the file could not tell or that was not kept."""
        if not times:
            return
        if len(self.notes) >= KINDS and sentence not in self.notes:
            sentence = "further remarks of other kinds"
        self.notes[sentence] += times

    def remarks(self) -> list[str]:
        """Everything a user should know, one sentence each."""
        out = _by_file([(file, f"read as {name} ({why})") for file, name, why in self.files])
        out += _by_file([(file, f"passed over ({why})") for file, why in self.passed_over])
        if len(self.formats) > 1:
            mixed = Counter(name for _, name, _ in self.files)
            told = ", ".join(f"{name} ({times})" for name, times in mixed.items())
            out.append(f"files of several formats: {told}; if they log the same runs, read one of them (--from NAME)")
        out.append(
            f"{_some(self.records, 'record')}: {_some(self.trajectories, 'trajectory', 'trajectories')} "
            f"with {_some(self.steps, 'step')}, {self.skipped.count} left out"
        )
        out += [f"{sentence} ({times})" for sentence, times in self.notes.items()]
        if self.skipped.count:
            out.append(str(self.skipped))
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "schema": "apportion.read/1",
            "path": self.path,
            "files": [{"file": file, "format": name, "why": why} for file, name, why in self.files],
            "passed_over": [{"file": file, "why": why} for file, why in self.passed_over],
            "records": self.records,
            "trajectories": self.trajectories,
            "steps": self.steps,
            "skipped": {"count": self.skipped.count, "reasons": list(self.skipped.reasons)},
            "notes": dict(self.notes),
        }


def _by_file(told: list[tuple[str, str]]) -> list[str]:
    """A line for each file; where there are many, one for each thing that is said."""
    if len(told) <= LINES:
        return [f"{file}: {what}" for file, what in told]
    files: dict[str, list[str]] = {}
    for file, what in told:
        files.setdefault(what, []).append(file)
    return [f"{_some(len(of), 'file')}, {of[0]} first: {what}" for what, of in files.items()]


def _some(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
