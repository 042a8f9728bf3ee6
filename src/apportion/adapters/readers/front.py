"""The door for any file: which format it has, and its trajectories."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from typing import Any, NamedTuple

from apportion.adapters.readers.fields import from_field, no_field, no_outcome, outcome_from
from apportion.adapters.readers.json_stream import Item, stream_json
from apportion.adapters.readers.records import PARQUET, start_of
from apportion.adapters.readers.registry import Context, Format, Head, Path, Trajectories, get, known
from apportion.adapters.readers.report import ReadReport
from apportion.adapters.readers.rows import columns_of, stream_rows
from apportion.adapters.readers.verdict import refuse_words, verdict_of
from apportion.data import Trajectory
from apportion.data.skipped import Skipped, kept
from apportion.errors import ConfigError, FormatError

PEEK = 4096
FIRST = 3
"""Records that a format is recognised by."""
CHOICES = 12
"""Fields that are named where the one to group by is in no record."""
MOST_BROKEN = 20
"""Broken ones before them, after which nobody looks further."""
EMPTY = "the file is empty; give one with rollouts"
UTF_16 = "the file is UTF-16; save it as UTF-8"
CREDIT = (
    "the file holds credit, and rollouts are wanted: give those that it was made of; `apportion view` and "
    "`apportion check` read credit"
)
NO_LOG = (EMPTY, UTF_16, CREDIT)
"""What no format can be forced on, so that none is named."""


class Detection(NamedTuple):
    """What a file was taken for.

    Attributes:
        format: name of the format. why: what gave it away.
        score: 0 to 1. others: formats that it could also be, with their scores, best first.
    """

    format: str
    why: str
    score: float
    others: tuple[tuple[str, float], ...]


class Reading(NamedTuple):
    """Trajectories, read as you take them, and the report that fills up meanwhile."""

    trajectories: Iterator[Trajectory]
    report: ReadReport


def detect(path: Path) -> Detection:
    """Say which format a file has.

    Raises:
        FormatError: the file cannot be read, or no format fits; names what was found.
    """
    found, what = _recognise(path)
    if found is None and what in NO_LOG:
        raise FormatError(f"{path}: {what}")
    if found is None:
        names = ", ".join(entry.name for entry in known())
        raise FormatError(f"{path}: {what}; known are {names} (name one to force it)")
    return found


def read_any(
    path: Path,
    format: str | None = None,
    *,
    group_by: str | None = None,
    outcome: str | None = None,
    skip_bad: bool | Skipped = False,
    on_trajectory: Callable[[], object] | None = None,
) -> Reading:
    """Read rollouts of any known format, ours included.

    Args:
        path: a file, or a folder: every file in it, those that no format fits passed over and reported. Hidden files
            and links that lead out of the folder are not followed.
        format: name of the format; None = recognise it, file by file. Of a folder, the files that could be of it.
        group_by: what makes rollouts comparable. None = the rule of the format (a field such as ``task_id``);
            "first_user_message"; else the name of a field, with dots for fields inside fields.
        outcome: the field that is the outcome, in reward units, named alike. None = the rule of the format. Numbers,
            also as text, and true and false are taken as they are; for words give "field=word": that word is 1, any
            other 0. Missing and null stay unscored, and so does a rollout that infrastructure broke.
        skip_bad: False raises at the first broken record; True, or a `Skipped` to count into, leaves broken
            records out and counts them in the report.
        on_trajectory: called for each trajectory, for progress.

    Returns:
        The trajectories, one after the other as they are taken, and the report.

    Raises:
        FormatError: at once when the file cannot be read or no format fits; for a broken record (file, place,
            reason) when it is reached.
        UnknownName: no format of that name. ConfigError: ``group_by`` on a format that knows its groups, ``outcome``
            on one that has no field for it; at the end, where either names a field that no record has, or the
            outcomes are words and none was named.
    """
    report = ReadReport(os.fspath(path), skipped=skip_bad if isinstance(skip_bad, Skipped) else Skipped())
    chosen = list(_choose(path, format, report))
    if group_by is not None:
        own = next((entry.name for _, entry in chosen if not entry.regroups), None)
        if own is not None:
            raise ConfigError(f"{path}: group_by is for foreign files; {own} names its groups itself, so drop it")
    if outcome is not None:
        own = next((entry.name for _, entry in chosen if not entry.rescores), None)
        if own is not None:
            raise ConfigError(f"{path}: outcome names a field of foreign files; {own} says it itself, so drop it")
    verdict = None if outcome is None else verdict_of(outcome)
    context = Context(report, group_by=group_by, outcome=verdict, skip_bad=skip_bad is not False)
    return Reading(_read(chosen, context, on_trajectory), report)


def _choose(path: Path, format: str | None, report: ReadReport) -> Iterator[tuple[Path, Format]]:
    forced = None if format is None else get(format)
    for file in _files(path, report):
        if file is path:
            name, why = detect(file)[:2] if forced is None else (forced.name, "as asked for")
        else:
            name, why = _fits(file, forced)
            if not name:
                report.passed_over.append((os.fspath(file), why))
                continue
        report.files.append((os.fspath(file), name, why))
        yield file, get(name)
    if not report.files:
        if report.passed_over and all(why == CREDIT for _, why in report.passed_over):
            raise FormatError(
                f"{path}: the files of this folder hold credit; `apportion view` and `apportion check` read it one by "
                f"one, so give one, such as {report.passed_over[0][0]}"
            )
        wanted = "a known format" if forced is None else f"the format {forced.name}"
        raise FormatError(f"{path}: no file of this folder holds rollouts of {wanted}")


def _fits(file: Path, forced: Format | None) -> tuple[str, str]:
    """Format of a file of a folder and why, or "" and why it has none."""
    try:
        if forced is None:
            found, what = _recognise(file)
            return ("", what) if found is None else (found.format, found.why)
        return (forced.name, "as asked for") if forced.sniff(_head(file)[0])[0] else ("", f"not {forced.name}")
    except FormatError as error:
        return "", str(error).removeprefix(f"{file}: ")


def _files(path: Path, report: ReadReport) -> list[Path]:
    if not os.path.isdir(path):
        return [path]
    root = FilePath(path)
    found: list[Path] = []
    for file in sorted(root.rglob("*")):
        if any(part.startswith(".") for part in file.relative_to(root).parts) or not file.is_file():
            continue
        if not file.resolve().is_relative_to(root.resolve()):
            report.passed_over.append((os.fspath(file), "a link that leads out of the folder"))
            continue
        found.append(file)
    return found


def _read(
    chosen: list[tuple[Path, Format]], context: Context, on_trajectory: Callable[[], object] | None
) -> Iterator[Trajectory]:
    report = context.report
    file_of: dict[str, int] = {}
    before = report.skipped.count
    for number, (path, entry) in enumerate(chosen):
        for trajectory in _of_file(path, entry, context, alone=len(chosen) == 1):
            report.trajectories += 1
            report.steps += len(trajectory.steps)
            if entry.regroups:
                _remark(trajectory, file_of, number, report)
            if on_trajectory is not None:
                on_trajectory()
            yield trajectory
    if report.skipped.count > before and not report.trajectories:
        reasons = report.skipped.reasons
        first = reasons[min(before, len(reasons) - 1)]
        raise FormatError(f"{report.path}: none of {report.records} records could be read; the first: {first}")
    _check_grouped(context)
    _check_scored(context)


def _check_grouped(context: Context) -> None:
    """A field to group by that no record has is a slip: each rollout would stand alone, and group methods give 0."""
    name, notes = context.group_by, context.report.notes
    if name is not None and notes[no_field(name)] and not notes[from_field(name)]:
        has = f"; they have {', '.join(context.choices[:CHOICES])}" if context.choices else ""
        raise ConfigError(f"{context.report.path}: no record has the field {name!r} to group by{has}")


def _check_scored(context: Context) -> None:
    """A field that no record has, and words that nobody explained, would leave every rollout unscored."""
    if context.outcome is None:
        return
    (name, word), report = context.outcome, context.report
    if report.notes[no_outcome(name)] and not report.notes[outcome_from(name)]:
        has = f"; they have {', '.join(context.scores[:CHOICES])}" if context.scores else ""
        raise ConfigError(f"{report.path}: no record has the field {name!r} for the outcome{has}")
    if report.trajectories and not report.notes[outcome_from(name)]:
        report.note(f"{name} was looked for in no record: each failed, or the format's reader takes no outcome")
    if word is None and context.words:
        refuse_words(report.path, name, context.words)
    if word is not None and context.words and word[:40] not in context.words:
        report.note(f"{name} is nowhere {word!r}: every outcome is 0")


def _of_file(path: Path, entry: Format, context: Context, *, alone: bool) -> Iterator[Trajectory]:
    """The trajectories of one file. Among others, one that is broken throughout is counted like a broken record."""
    report = context.report
    skipped = report.skipped if context.skip_bad else False
    try:
        yield from kept(_counted(entry.read(path, context), report), path, skipped)
    except FormatError as error:
        if alone or not context.skip_bad:
            raise
        if not str(error).startswith(f"{path}: none of "):  # those are counted already
            report.skipped.add(error)
            report.records += 1


def _remark(trajectory: Trajectory, file_of: dict[str, int], number: int, report: ReadReport) -> None:
    """What is to be said of a rollout whatever its format."""
    if trajectory.steps[0].ids is None:
        report.note("ids unknown: text only, words stand in for tokens")
    if trajectory.group is not None and file_of.setdefault(trajectory.group, number) != number:
        report.note("in a group of an earlier file: right if both ran the same tasks, else convert apart")


def _counted(items: Trajectories, report: ReadReport) -> Trajectories:
    for item in items:
        report.records += 1
        yield item


def _recognise(path: Path) -> tuple[Detection | None, str]:
    """The best format, or None and what the file looks like."""
    head, problem = _head(path)
    marks = sorted(((*entry.sniff(head), entry.name) for entry in known()), key=lambda mark: (-mark[0], mark[2]))
    score, why, name = marks[0]
    if score > 0:
        others = tuple((other, mark) for mark, _, other in marks[1:] if mark > 0)
        return Detection(name, why, score, others), why
    return None, problem or f"no format fits ({_look(head)})"


def _head(path: Path) -> tuple[Head, str]:
    start = start_of(path, PEEK)
    if not start.strip():
        return Head(start, ()), EMPTY
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return Head(start, ()), UTF_16
    if start.startswith(PARQUET):
        columns = columns_of(path)
        if {"advantage", "tokens_unit"} <= set(columns):  # beside those of rollouts
            return Head(start, ()), CREDIT
        rows = itertools.islice(stream_rows(path), FIRST)
        return Head(start, tuple(item.value for item in rows if isinstance(item, Item)), columns), ""
    if not start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith((b"{", b"[")):
        return Head(start, ()), f"the file is not JSON (it starts with {start[:8]!r})"
    records: list[Any] = []
    problems: list[str] = []
    for item in stream_json(path):
        if isinstance(item, FormatError):
            problems.append(str(item).removeprefix(f"{path}, ").removeprefix(f"{path}: "))
        else:
            records.append(item.value)
        if len(records) == FIRST or len(problems) == MOST_BROKEN:
            break
    first = records[0] if records else None
    if isinstance(first, dict) and str(first.get("schema")).startswith("apportion.credit/"):
        return Head(start, tuple(records)), CREDIT
    return Head(start, tuple(records)), problems[0] if problems and not records else ""


def _look(head: Head) -> str:
    if head.columns:
        return "a Parquet file with the columns " + ", ".join(map(repr, head.columns[:8]))
    if not head.records:
        return "it starts with " + repr(head.start[:16])
    value = head.records[0]
    if isinstance(value, dict):
        return "its records have " + (", ".join(repr(key) for key in list(value)[:8]) or "no fields")
    return f"its first record is {'a list' if isinstance(value, list) else type(value).__name__}"
