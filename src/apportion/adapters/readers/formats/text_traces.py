"""Traces that are texts, as agents in text games and ReAct write them, in JSON beside their reward or in plain files.

    {"pick_and_place": {"trial_1": {"problem": "…", "trace": " think: …\\nOK.\\n> go to desk 1\\n…", "reward": true}}}
    {"task": "…", "trajectory": "Thought 1: …\\nAction 1: Search[…]\\nObservation 1: …", "reward": 0}   one a line
    #####  Environment #0: You are in the middle of a room … > go to desk 1 …  STATUS: OK  #####   Reflexion's logs

Objects inside objects are walked, and their names are the name of the rollout: in such files each game was played
once, so its name is its group (unless a usual field names one). A trace that goes on behind its prompt sign begins
with an action. ``think:`` lines are actions that the environment answers with OK. A trace that starts its prompt anew
(a planner that hands out subtasks, as ADaPT does) shows where: the step is ``fresh``. An empty trace is one empty
action.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.json_stream import LONGEST
from apportion.adapters.readers.records import PARQUET, all_of, of_records, start_of
from apportion.adapters.readers.registry import Context, Format, Head, Path, Trajectories, register
from apportion.adapters.readers.transcript import is_labelled, is_prompted, steps_of
from apportion.data import Step, Trajectory
from apportion.errors import FormatError

TEXT = "_text"
TRACES = ("trace", "trajectory", "traj", "scratchpad", "transcript", TEXT)
BEFORE = ("problem", "observation", "task_description", "question", "task", "instruction", "goal")
ALSO_BEFORE = ("commands",)
DEEP = 8
_RUN = re.compile(r"\n>[ \t]*\n\n(?=[ \t]*\S)")
_ENVIRONMENT = re.compile(r"#####\s*\n+Environment #(\d+):[ \t]*")
_STATUS = re.compile(r"\n*STATUS:[ \t]*(OK|FAIL)\b")


def sniff(head: Head) -> tuple[float, str]:
    """A text trace under a usual name, somewhere inside; or a plain text with prompt signs or labels."""
    for record in head.records:
        name = next((name for _, one, _ in _walk(record, (), "") if (name := _trace(one))), "")
        if name:
            return 0.75, f"records with a {name!r} that is a transcript"
    if head.records or head.start.lstrip()[:1] in (b"{", b"["):
        return 0.0, ""
    text = head.start.decode("utf-8", "replace")
    if _ENVIRONMENT.search(text):
        return 0.8, "a log of environments between #####"
    if is_labelled(text, whole=True):
        return 0.4, "a text of Action and Observation"
    return 0.0, ""  # a > in a text may be anything; such a file is read when it is asked for


def read(path: Path, context: Context) -> Trajectories:
    """JSON as records; anything else as one text, or one rollout per environment in it."""
    start = start_of(path, 64).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] in (b"{", b"[") or start[: len(PARQUET)] == PARQUET:
        yield from _of_json(path, context)
        return
    text = _whole(path)
    pieces = _ENVIRONMENT.split(text)
    if len(pieces) == 1:
        if not (is_prompted(text) or is_labelled(text)):
            raise FormatError(f"{path}: no action in this text; lines of them begin with > or with Action:")
        yield from all_of(_convert, {TEXT: text, "_name": os.path.basename(os.fspath(path))}, f"{path}", context)
    for number, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if body.strip("#\n ") == "Success":
            context.report.note("environments that an earlier trial solved: not played again, left out")
            continue
        at = f"{path}, environment {number}"
        yield from all_of(_convert, {TEXT: body.rstrip("#\n "), "_name": number}, at, context)


def _whole(path: Path) -> str:
    """The text of the file."""
    raw = start_of(path, LONGEST + 1)
    if len(raw) > LONGEST:
        raise FormatError(f"{path}: a text of more than {LONGEST >> 20} MiB; split it by rollout")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None


def _walk(value: Any, names: tuple[str, ...], at: str) -> Iterator[tuple[tuple[str, ...], Any, str]]:
    """The objects inside that have a trace, with the names on the way; the value itself where it has one."""
    if not isinstance(value, dict) or _named(value):
        yield names, value, at
        return
    if len(names) < DEEP and value and any(isinstance(inner, dict) for inner in value.values()):
        for name, inner in value.items():
            if isinstance(inner, dict):
                yield from _walk(inner, (*names, name), f"{at}, {name[:60]}")


def _named(record: dict[str, Any]) -> str:
    return next((name for name in TRACES if isinstance(record.get(name), str)), "")


def _trace(record: Any) -> str:
    """Name of the field that holds a transcript."""
    name = _named(record) if isinstance(record, dict) else ""
    return name if name and (is_prompted(record[name]) or is_labelled(record[name])) else ""


def _records(value: Any, at: str, context: Context) -> Iterator[tuple[Any, str]]:
    for names, record, place in _walk(value, (), at):
        yield ({**record, "_name": "/".join(names)} if names and isinstance(record, dict) else record), place
    if isinstance(value, dict) and not _named(value):
        summary = sum(1 for inner in value.values() if isinstance(inner, dict) and not any(_walk(inner, (), "")))
        context.report.note("objects without a trace (a summary): left out", summary)


def _convert(record: Any, at: str, context: Context) -> Trajectory:
    name = _named(record) if isinstance(record, dict) else ""
    if not name:
        raise FormatError(f"{at}: no trace that is a text; remove it")
    text, status = record[name], None
    match = _STATUS.search(text)
    if match:
        text, status = text[: match.start()], match[1] == "OK"
    before = [record[field] for field in (*ALSO_BEFORE, *BEFORE) if isinstance(record.get(field), str)]
    first = "\n\n".join(before) or None
    begins = "observation" if first is None or text.lstrip(" ").startswith(">") else "action"
    steps: list[Step] = []
    final: str | None = first
    for r, run in enumerate(_RUN.split(text)):
        made, seen = steps_of(run, first=first if r == 0 else None, begins=begins if r == 0 else "action")
        if made and r and steps:
            made[0] = replace(made[0], fresh=True, observation=final, state=final or made[0].state)
        steps += made
        final = seen or (None if made else final)
    if not steps:
        context.report.note("traces without an action: one empty action")
        steps, final = [Step(observation=final, action="", state=final or "")], None
    steps = [replace(step, turn=k) for k, step in enumerate(steps)]
    if status is not None and context.outcome is not None:
        context.report.note("status at the end of a text: left out, as another outcome was asked for")
        status = None
    outcome = float(status) if status is not None else fields.outcome(record, at, context)
    own = record.get("_name")
    group = _group(record, own, at, context, first)
    identity = fields.identity(record, at, context) or (context.unique(own) if own else None)
    taken = {name, "_name", *BEFORE, *ALSO_BEFORE, fields.first(record, fields.REWARDS)[0], *fields.IDS}
    return Trajectory(
        steps,
        group=group,
        id=identity,
        outcome=outcome,
        final_observation=final,
        meta=fields.rest(record, taken, at, context),
    )


def _group(record: dict[str, Any], own: Any, at: str, context: Context, first: str | None) -> str | None:
    if context.group_by is None and own and not fields.first(record, fields.GROUPS)[0]:
        context.report.note("group from the name of the game")
        return str(own)
    return fields.group(record, at, context, first)


_of_json = of_records(_convert, split=_records)

register(
    Format(
        "text-trace",
        "transcripts as text: > actions of ALFWorld and TextCraft, ReAct's Thought/Action/Observation, Reflexion's",
        sniff,
        read,
    )
)
