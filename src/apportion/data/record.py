"""A trajectory as plain JSON values and back: the one description of the format that every file shares.

Field names are those of `Trajectory` and `Step`; what has its default is left out. ``extra`` and ``meta`` are
free, every other unknown name is refused, because a mistyped field is data lost without a sound.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apportion.data.check import check_fields, check_trajectory
from apportion.data.steps import Steps, plain_steps
from apportion.data.trajectory import Step, Trajectory, step_of
from apportion.errors import DataError, FormatError

SCHEMA = "apportion.rollouts/1"
"""Name and major version of the format; a reader refuses a newer major version."""

STEP_FIELDS = tuple(field.name for field in dataclasses.fields(Step))
TRAJECTORY_FIELDS = tuple(field.name for field in dataclasses.fields(Trajectory))
_STEP_SET = frozenset(STEP_FIELDS)
NAMED = ("rewards", "columns", "outcomes")
"""Fields that hold numbers by name."""
DEEPEST = 200
"""Levels of nesting that ``extra`` and ``meta`` may have."""

_SPLIT_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_FOREIGN = {
    "messages": "chat messages",
    "conversations": "chat messages",
    "response_ids": "one model call a line; fold such rows with apportion.data.fold",
    "completion": "prompts with completions",
    "trajectory": "an agent's log",
    "traj": "an agent's log",
    "history": "an agent's log",
}


def to_record(trajectory: Trajectory, at: str) -> dict[str, Any]:
    """JSON values of one trajectory; what is absent or has its default is left out.

    Raises:
        DataError: the trajectory breaks a precondition, or ``extra`` or ``meta`` holds more than JSON values.
    """
    check_trajectory(trajectory, at)
    record = _present(trajectory, [name for name in TRAJECTORY_FIELDS if name != "steps"], at)
    record["steps"] = [_present(step, STEP_FIELDS, f"{at}, step {s}") for s, step in enumerate(trajectory.steps)]
    return record


def from_record(record: object, at: str) -> Trajectory:
    """The trajectory that `to_record` described.

    Raises:
        FormatError: says where (``at``), which field, and why.
    """
    if not isinstance(record, dict):
        raise FormatError(f"{at}: {json_kind(record)} where a trajectory was expected; give one object per line")
    if "steps" not in record:
        raise FormatError(
            f"{at}: no 'steps', so this is not a trajectory of ours (it looks like {looks_like(record)}); "
            "other formats are read by `apportion convert`"
        )
    _known(record, TRAJECTORY_FIELDS, "meta", at)
    if not isinstance(record["steps"], list):
        raise FormatError(f"{at}: steps is {json_kind(record['steps'])}; give a list of objects")
    try:
        if (plain := plain_steps(record["steps"])) is not None:
            return _with_plain(record, plain, at)
        steps = [_step(step, at, s) for s, step in enumerate(record["steps"])]
        check_json(record.get("meta"), f"{at}: meta")
        trajectory = Trajectory(**{**record, "steps": steps})
        check_trajectory(trajectory, at)
    except FormatError:
        raise
    except DataError as error:
        raise FormatError(str(error)) from None
    return trajectory


def _with_plain(record: dict[str, Any], steps: Steps, at: str) -> Trajectory:
    """The same with steps that need no more looking at; they are made when somebody asks for them."""
    check_json(record.get("meta"), f"{at}: meta")
    trajectory = Trajectory(**{**record, "steps": ()})
    check_fields(trajectory, at)
    object.__setattr__(trajectory, "steps", steps)
    return trajectory


def by_name(value: Mapping[str, Any]) -> dict[str, Any]:
    """JSON values of one of the `NAMED` fields."""
    return {name: item.tolist() if isinstance(item, np.ndarray) else item for name, item in value.items()}


def looks_like(record: Mapping[str, Any]) -> str:
    """A guess, for the error message, at what a foreign record is."""
    for key, what in _FOREIGN.items():
        if key in record:
            return what
    return f"an object with {_listed(list(record))}" if record else "an empty object"


def to_json(value: object, at: str) -> str:
    """One line of JSON, exact in both directions; characters stay as they are wherever UTF-8 has them.

    Raises:
        DataError: a text that JSON would change.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half of a surrogate pair, as cut-off model output has it
        if _SPLIT_PAIR.search(text):
            raise DataError(
                f"{at}: a text holds the two halves of a surrogate pair as separate characters, which JSON "
                "would join; join them with text.encode('utf-16', 'surrogatepass').decode('utf-16')"
            ) from None
        return json.dumps(value, ensure_ascii=True, allow_nan=False)
    return text


def check_json(value: object, at: str, depth: int = 0) -> None:
    """Raise `DataError` unless ``value`` is made of what JSON keeps exactly."""
    if value is None or isinstance(value, str | bool):
        return
    if depth > DEEPEST:
        raise DataError(f"{at} is nested more than {DEEPEST} levels deep; flatten it")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DataError(f"{at} holds {value}, which JSON has no sign for; give a finite number or None")
    elif isinstance(value, int):
        if value.bit_length() > 1024:
            raise DataError(f"{at} holds an integer of {value.bit_length()} bits; give it as a string")
    elif isinstance(value, list | tuple):
        for item in value:
            check_json(item, at, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise DataError(f"{at} has the key {key!r}; JSON keys are strings")
            check_json(item, at, depth + 1)
    else:
        raise DataError(f"{at} holds a {type(value).__name__}; give JSON values (strings, numbers, lists, dicts, None)")


def _present(holder: Step | Trajectory, names: Sequence[str], at: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in names:
        value = getattr(holder, name)
        if value is None or value is False:
            continue
        if isinstance(value, np.ndarray):
            value = value.tolist()
        elif name in NAMED:
            if not value:
                continue
            value = by_name(value)
        elif name in ("extra", "meta"):
            if not value:
                continue
            value = dict(value)
            check_json(value, f"{at}: {name}")
        out[name] = value
    return out


def _step(step: object, at: str, s: int) -> Step:
    if not isinstance(step, dict):
        raise FormatError(f"{at}, step {s}: {json_kind(step)} where a step was expected; give an object")
    if not step.keys() <= _STEP_SET:
        _known(step, STEP_FIELDS, "extra", f"{at}, step {s}")
    if step.get("extra"):
        check_json(step["extra"], f"{at}, step {s}: extra")
    try:
        return step_of(step)
    except DataError as error:
        raise FormatError(f"{at}, step {s}: {error}") from None
    except TypeError:  # the only field that is iterated as it comes
        raise FormatError(
            f"{at}, step {s}: actions is {json_kind(step.get('actions'))}; give a list of strings"
        ) from None


def _known(record: Mapping[str, Any], names: Sequence[str], free: str, at: str) -> None:
    for key in record:
        if key not in names:
            near = difflib.get_close_matches(key, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the fields are {', '.join(names)}"
            raise FormatError(f"{at}: there is no field {key!r}; {hint} (other data go into {free!r})")


def _listed(keys: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(repr(key) for key in keys[:most])
    return shown + (f" and {len(keys) - most} more" if len(keys) > most else "")


def json_kind(value: object) -> str:
    """The JSON name of a value's kind, with its article."""
    names: tuple[tuple[type, str], ...] = (
        (type(None), "null"),
        (bool, "a boolean"),
        (int, "a number"),
        (float, "a number"),
        (str, "a string"),
        (list, "a list"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "an object")
