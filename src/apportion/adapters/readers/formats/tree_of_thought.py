"""Logs of tree-of-thought: several answers to one puzzle, with the search that led to them or without.

    [{"idx": 900, "ys": ["…", …], "infos": [{"r": 0}, …], "usage_so_far": {…}}, …]                       sampled answers
    [{"idx": 900, "steps": [{"step": 0, "x": "4 5 6 10", "ys": [""], "new_ys": […], "values": […],
      "select_new_ys": […]}, …], "ys": […], "infos": […]}, …]                                            the search

One answer is one rollout, one puzzle (``idx``) one group. With the search, each thought that an answer is made of is
a step: its state is the puzzle and the thoughts before it, so answers that share a beginning share states, and the
evaluator's value of the thought is kept in ``extra["evaluation"]`` (it is no reward). Thoughts that were not
selected have no outcome and are left out, counted. Without the search an answer is one step, and the puzzle's text
is unknown. The outcome is ``infos[i].r``; other numbers of ``infos`` are parts of it, and ``accs`` stands in where
there is no infos.
"""

from __future__ import annotations

from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import state_after
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Step, Trajectory
from apportion.errors import FormatError

TAKEN = ("idx", "ys", "infos", "accs", "steps", "usage_so_far")


def sniff(head: Head) -> tuple[float, str]:
    """Records with ys and infos."""
    for record in head.records:
        told = set(record) if isinstance(record, dict) else set()
        if {"idx", "ys"} <= told and isinstance(record["ys"], list) and told & {"infos", "accs"}:
            return 0.95, "records with 'idx', 'ys' and 'infos'"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> list[Trajectory]:
    """Every answer to one puzzle."""
    ys = record.get("ys") if isinstance(record, dict) else None
    if not isinstance(ys, list) or not ys or not all(isinstance(y, str) for y in ys):
        raise FormatError(f"{at}: no 'ys' that is a list of texts, so this is no log of tree-of-thought; remove it")
    infos = record.get("infos", record.get("accs"))
    if infos is not None and (not isinstance(infos, list) or len(infos) != len(ys)):
        raise FormatError(f"{at}: infos does not have one entry for each of {len(ys)} answers; repair it")
    levels = _levels(record.get("steps"), at)
    puzzle = next((level["x"] for level in levels if isinstance(level.get("x"), str)), None)
    context.report.note("the puzzle's text is not in the file", len(ys) if puzzle is None else 0)
    name = None if record.get("idx") is None else fields.label(record["idx"], f"{at}: idx")
    if context.group_by is None:
        context.report.note("group from idx", len(ys) if name else 0)
    tried = sum(len(level["new_ys"]) for level in levels)
    kept = sum(len(level["select_new_ys"]) for level in levels)
    context.report.note("thoughts that were not selected: left out", max(0, tried - kept))
    meta = fields.rest(record, TAKEN, at, context)
    out = []
    for k, y in enumerate(ys):
        outcome, parts = _outcome(record, infos[k] if infos is not None else None, f"{at}, answer {k}", context)
        group = name if context.group_by is None and name else fields.group(record, at, context, puzzle)
        out.append(
            Trajectory(
                _steps(y, levels, puzzle),
                group=group,
                id=None if name is None else context.unique(f"{name}/{k}"),
                outcome=outcome,
                outcomes=parts,
                meta=meta,
            )
        )
    return out


def _levels(steps: Any, at: str) -> list[dict[str, Any]]:
    """The levels of the search, checked."""
    if steps is None:
        return []
    if not isinstance(steps, list):
        raise FormatError(f"{at}: steps is {fields.kind(steps)}; give a list of levels")
    for k, level in enumerate(steps):
        if not isinstance(level, dict):
            raise FormatError(f"{at}, step {k} is {fields.kind(level)}; give an object with new_ys")
        for name in ("new_ys", "select_new_ys"):
            texts = level.get(name)
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise FormatError(f"{at}, step {k}: {name} is no list of texts; repair it")
    return steps


def _steps(y: str, levels: list[dict[str, Any]], puzzle: str | None) -> list[Step]:
    """One step per selected beginning of the answer; what goes beyond the last is one more."""
    ends: list[tuple[int, Any]] = []
    for level in levels:
        found = [
            text for text in level["select_new_ys"] if y.startswith(text) and len(text) > (ends[-1][0] if ends else 0)
        ]
        if found:
            best = max(found, key=len)
            values, at = level.get("values"), level["new_ys"].index(best) if best in level["new_ys"] else -1
            value = values[at] if isinstance(values, list) and 0 <= at < len(values) else None
            ends.append((len(best), value if isinstance(value, int | float) and abs(value) < 2**63 else None))
    if not ends or ends[-1][0] < len(y):
        ends.append((len(y), None))
    steps: list[Step] = []
    begin = 0
    for end, value in ends:
        steps.append(
            Step(
                observation=puzzle if not steps else None,
                action=y[begin:end],
                state=state_after(steps[-1]) if steps else puzzle or "",
                turn=len(steps),
                extra={} if value is None else {"evaluation": float(value)},
            )
        )
        begin = end
    return steps


def _outcome(record: dict[str, Any], info: Any, at: str, context: Context) -> tuple[float | None, dict[str, float]]:
    if context.outcome is not None:
        told = info if isinstance(info, dict) else {"r": info}
        numbers = {name: value for name, value in told.items() if isinstance(value, bool | int | float)}
        return fields.outcome({**record, **told}, at, context), fields.parts(numbers, context)
    if isinstance(info, bool | int | float):
        return fields.number(info, at), {}
    if not isinstance(info, dict) or info.get("r") is None:
        context.report.note("reward missing: not scored, which is not 0")
        return None, {}
    rest = {name: value for name, value in info.items() if name != "r" and isinstance(value, bool | int | float)}
    return fields.number(info["r"], f"{at}: r"), fields.parts(rest, context)


register(
    Format(
        "tree-of-thought",
        "tree-of-thought logs: idx, ys, infos, and the steps of the search",
        sniff,
        of_records(convert),
    )
)
