"""Which field of a foreign record is the reward, the group, the name: one rule for all formats, written down here.

The first name of each list that a record has, and that is not null, counts; then the same names inside its
``metadata`` or ``meta``. What no rule takes is kept in `Trajectory.meta`.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from apportion.adapters.readers.registry import Context
from apportion.adapters.readers.verdict import MOST_WORDS, number_in
from apportion.data.record import DEEPEST, json_kind
from apportion.errors import FormatError

kind = json_kind

REWARDS = ("reward", "outcome", "trajectory_reward", "score", "success")
JUDGED = ("rewards", "is_correct", "is_corrected", "final_answer_correct")
"""What some formats say instead."""
GROUPS = (
    "group",
    "group_id",
    "task_id",
    "example_id",
    "instance_id",
    "problem_id",
    "question_id",
    "prompt_id",
)
IDS = ("id", "trajectory_id", "rollout_id", "conversation_id", "session_id")
TRUNCATED = ("truncated", "is_truncated")
TERMINATED = ("terminated", "done")
STOPPED_BY_LIMIT = ("length", "max_tokens")
NESTED = ("metadata", "meta")
FIRST_USER = "first_user_message"
_NOT_IN_NAMES = re.compile(r"\W")

Record = Mapping[str, Any]


def first(record: Record, names: Iterable[str]) -> tuple[str, Any]:
    """Name and value of the first field that is there and not null; "" and None where none is."""
    for holder in (record, *(record.get(name) for name in NESTED)):
        if isinstance(holder, dict):
            for name in names:
                if holder.get(name) is not None:
                    return name, holder[name]
    return "", None


def outcome(record: Record, at: str, context: Context, *, whole: Record | None = None) -> float | None:
    """The reward of the whole rollout: true is 1, false is 0, absent is None and never 0.

    A field that was asked for is looked for in ``whole``, where the record is but a part of that.
    """
    if context.outcome is not None:
        return _asked(record if whole is None else whole, *context.outcome, at, context)
    name, value = first(record, REWARDS)
    if not name:
        context.report.note("reward missing: not scored, which is not 0")
        return None
    return number(value, f"{at}: {name}")


def _asked(record: Record, name: str, word: str | None, at: str, context: Context) -> float | None:
    """The outcome in the field that was asked for; a word that nobody explained is kept for the refusal."""
    value = dotted(record, name)
    if value is None or (isinstance(value, str) and not value.strip()):
        context.report.note(no_outcome(name))
        context.scores = context.scores or tuple(_choices(record, str | int | float))
        return None
    context.report.note(outcome_from(name))
    if word is None and not isinstance(value, str):
        return number(value, f"{at}: {name}")
    text = str(value).lower() if isinstance(value, bool) else label(value, f"{at}: {name}")
    told = float(text == word) if word is not None else number_in(text)
    if told is not None and word is None:
        return number(told, f"{at}: {name}")
    if len(context.words) < MOST_WORDS or text == word:
        context.words[text[:40]] = None
    if told is not None:
        shown = repr(text[:40]) if text[:40] in context.words else "another word"
        context.report.note(f"{name} is {shown}: outcome {told:g}")
    return told


def no_outcome(name: str) -> str:
    """The remark that a record lacks the field that was asked for as outcome."""
    return f"no field {name!r} for the outcome: not scored, which is not 0"


def outcome_from(name: str) -> str:
    """The remark that a record has it."""
    return f"outcome from {name}, as asked for"


def number(value: Any, at: str) -> float:
    """A finite float; booleans count as 0 and 1."""
    if isinstance(value, bool | int | float):
        try:
            out = float(value)
        except OverflowError:
            out = math.inf
        if math.isfinite(out):
            return out
        raise FormatError(f"{at} is {out}; give a finite number, or null when it was not scored")
    raise FormatError(f"{at} is {kind(value)}; give a number, true or false, or null when it was not scored")


def group(record: Record, at: str, context: Context, first_user: str | None) -> str | None:
    """Identity of the task; None = a group of its own."""
    if context.group_by == FIRST_USER:
        if first_user is None:
            context.report.note("no user message to group by: a group of its own")
            return None
        context.report.note("group guessed from the first user message")
        digest = hashlib.blake2b(first_user.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        return f"{' '.join(first_user.split())[:40]} #{digest}"
    if context.group_by is not None:
        name, value = context.group_by, dotted(record, context.group_by)
    else:
        name, value = first(record, GROUPS)
    asked = context.group_by is not None
    if value is None:
        context.report.note(no_field(name) if asked else "group not given: a group of its own")
        context.choices = context.choices or tuple(_choices(record, str | int))
        return None
    context.report.note(from_field(name) if asked else f"group guessed from {name}")
    return label(value, f"{at}: {name}")


def no_field(name: str) -> str:
    """The remark that a record lacks the field that was asked for."""
    return f"no field {name!r} to group by: a group of its own"


def from_field(name: str) -> str:
    """The remark that a record has it."""
    return f"group from {name}, as asked for"


def _choices(record: Record, kinds: Any, before: str = "") -> Iterator[str]:
    """Fields that could be asked for, with dots for those one level down; true and false only where floats are too."""
    for name, value in record.items():
        if isinstance(value, kinds) and (not isinstance(value, bool) or isinstance(0.0, kinds)):
            yield before + name
        elif isinstance(value, dict) and not before:
            yield from _choices(value, kinds, f"{name}.")


def parts(value: Any, context: Context) -> dict[str, float]:
    """Named parts of a reward: its finite numbers by a name that a method can ask for; the others are counted."""
    if not isinstance(value, dict):
        context.report.note(f"parts of the reward that are no object ({kind(value)}): left out", value is not None)
        return {}
    out: dict[str, float] = {}
    for name, part in value.items():
        told = isinstance(part, int | float) and abs(part) < 2**63  # false for NaN too
        if told and _NOT_IN_NAMES.sub("_", name).isidentifier():
            out[_NOT_IN_NAMES.sub("_", name)] = float(part)
        else:
            context.report.note("parts of the reward that are no numbers: left out of outcomes")
    return out


def label(value: Any, at: str) -> str:
    """A name from a string or a number; 3 and 3.0 are one name."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) < 2**63:  # false for NaN too
            return str(value)
        raise FormatError(f"{at} is a number out of range; give a string or an integer")
    raise FormatError(f"{at} is {kind(value)}; give a string or a number")


def dotted(record: Record, path: str) -> Any:
    """The value at ``a.b.c``; a field of exactly that name comes first. None where there is none."""
    if path in record:
        return record[path]
    value: Any = record
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def identity(record: Record, at: str, context: Context) -> str | None:
    """Name of the rollout, made unique in the file; None where it has none."""
    name, value = first(record, IDS)
    return context.unique(label(value, f"{at}: {name}")) if name else None


def flag(record: Record, names: Iterable[str], at: str) -> bool:
    """A boolean field; absent is False."""
    name, value = first(record, names)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise FormatError(f"{at}: {name} is {kind(value)}; give true or false")


def rest(record: Record, taken: Iterable[str], at: str, context: Context) -> dict[str, Any]:
    """Everything that no rule took, as JSON values; rewards too, where another field was asked for as the outcome."""
    skip = set(taken) - set((*REWARDS, *JUDGED) if context.outcome is not None else ())
    return {name: kept(value, f"{at}: {name}", context) for name, value in record.items() if name not in skip}


def kept(value: Any, at: str, context: Context, depth: int = 0) -> Any:
    """The value as our files can hold it: numbers that are not finite become null and are counted."""
    if depth > DEEPEST:
        raise FormatError(f"{at} is nested more than {DEEPEST} levels deep; flatten it")
    if isinstance(value, float) and not math.isfinite(value):
        context.report.note("numbers beside the reward that are not finite: kept as null")
        return None
    if isinstance(value, int) and value.bit_length() > 1024:
        raise FormatError(f"{at} holds an integer of {value.bit_length()} bits; give it as a string")
    if isinstance(value, list):
        return [kept(item, at, context, depth + 1) for item in value]
    if isinstance(value, dict):
        return {name: kept(item, at, context, depth + 1) for name, item in value.items()}
    return value
