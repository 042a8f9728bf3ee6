"""The formats: what each is called, how it is recognised, how it is read."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from apportion.adapters.readers.report import ReadReport
from apportion.adapters.readers.verdict import Verdict
from apportion.data import Trajectory
from apportion.errors import ConfigError, FormatError, UnknownName

Path = str | os.PathLike[str]
Trajectories = Generator[Trajectory | FormatError, None, None]


@dataclass(frozen=True, slots=True)
class Head:
    """The start of a file, for recognising it.

    Attributes:
        start: its first bytes, decompressed.
        records: its first JSON values; items, where the file is one list; rows of a Parquet file. Empty elsewhere.
        columns: names of the columns of a Parquet file.
    """

    start: bytes
    records: tuple[Any, ...]
    columns: tuple[str, ...] = ()


@dataclass(slots=True)
class Context:
    """What a reader is told and where it reports.

    Attributes:
        report: counts, notes, what was left out.
        group_by: None = the rule of the format; "first_user_message"; else the (dotted) name of a field.
        skip_bad: broken records are counted, not raised.
        outcome: the field that was asked for as outcome; None = the rule of the format.
        names: how often each id was given out, to keep them apart.
        choices: fields of the first record without the field that ``group_by`` names.
        scores: the same for ``outcome``. words: what that field holds that is no number.
    """

    report: ReadReport
    group_by: str | None = None
    skip_bad: bool = False
    names: Counter[str] = field(default_factory=Counter)
    choices: tuple[str, ...] = ()
    outcome: Verdict | None = None
    scores: tuple[str, ...] = ()
    words: dict[str, None] = field(default_factory=dict)

    def silent(self) -> Context:
        """The same for a part that is read for its text alone: what it notes is told to nobody."""
        return Context(ReadReport(self.report.path), self.group_by, self.skip_bad)

    def unique(self, name: str) -> str:
        """The name, with ``#2``, ``#3``, … where the file uses it again."""
        while True:
            self.names[name] += 1
            if self.names[name] == 1:
                return name
            self.report.note("ids used more than once: numbered with #")
            name = f"{name}#{self.names[name]}"


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of file.

    Attributes:
        name: what users type after ``--from``.
        about: one line: where such files come from and how they look.
        sniff: how sure it is that the file is of this kind, 0 to 1, and why.
        read: yields a trajectory, or the `FormatError` that says what is wrong, for every record.
        regroups: ``group_by`` works; formats that know their groups refuse it.
        rescores: ``outcome`` works; formats whose rollouts have no field each for it refuse it.
    """

    name: str
    about: str
    sniff: Callable[[Head], tuple[float, str]]
    read: Callable[[Path, Context], Trajectories]
    regroups: bool = True
    rescores: bool = True


_FORMATS: dict[str, Format] = {}


def register(entry: Format) -> Format:
    """Put a format into the registry.

    Raises:
        ConfigError: the name is taken by another one.
    """
    if entry.name in _FORMATS and _FORMATS[entry.name].read.__module__ != entry.read.__module__:
        raise ConfigError(f"the format {entry.name!r} is already there; give yours another name")
    _FORMATS[entry.name] = entry
    return entry


def get(name: str) -> Format:
    """The format of that name.

    Raises:
        UnknownName: with the nearest names.
    """
    if name not in _FORMATS:
        near = difflib.get_close_matches(name, _FORMATS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(_FORMATS))}"
        raise UnknownName(f"no file format named {name!r}; {hint}")
    return _FORMATS[name]


def known() -> tuple[Format, ...]:
    """Every registered format, by name."""
    return tuple(_FORMATS[name] for name in sorted(_FORMATS))
