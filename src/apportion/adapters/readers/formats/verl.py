"""Generations that verl dumps while it trains and validates (``rollout_data_dir``, ``validation_data_dir``), JSONL.

    {"input": "…", "output": "…", "gts": "42", "score": 1.0, "step": 10, "acc": true, "uid": "…", "request_id": "…"}

Input and output are decoded texts without special tokens: turns, tool answers and ids cannot be told apart any more,
so one rollout is one step, tool answers included, and that is told. Group = ``uid`` up to its rollout numbers
(``sample_rollout_output``) or, without one, step and input. Outcome = ``score``; other numbers are parts of it,
``gts`` the reference. For credit by step take the rollouts from the trainer instead (`apportion.adapters.verl`).
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Step, Trajectory
from apportion.errors import FormatError

TAKEN = ("input", "output", "gts", "score", "uid")
_PLACE = re.compile(r"^(.+?)_\d+_\d+$")


def sniff(head: Head) -> tuple[float, str]:
    """Records with input, output and score, all as verl writes them."""
    for record in head.records:
        if isinstance(record, dict) and isinstance(record.get("input"), str) and isinstance(record.get("output"), str):
            if {"score", "step"} <= set(record):
                return 0.9, "records with 'input', 'output', 'score' and 'step'"
            if {"score", "gts"} <= set(record):
                return 0.8, "records with 'input', 'output', 'gts' and 'score'"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One generation."""
    if not isinstance(record, dict) or not isinstance(record.get("output"), str):
        raise FormatError(f"{at}: no 'output' that is a text, so this is no generation of verl; remove it")
    asked = record.get("input")
    if asked is not None and not isinstance(asked, str):
        raise FormatError(f"{at}: input is {fields.kind(asked)}; give a text")
    context.report.note("turns and tools inside the output: not told apart in the file, one step")
    outcome = fields.outcome({"score": record.get("score")}, at, context, whole=record)
    numbers = {
        name: value
        for name, value in record.items()
        if isinstance(value, bool | int | float)
        and name not in (*TAKEN, "step")
        and not name.endswith(("_id", "idx", "index"))
    }
    answer = record.get("gts")
    meta = fields.rest(record, (*TAKEN, *numbers), at, context)
    return Trajectory(
        [Step(observation=asked, action=record["output"], state=asked or "", turn=0)],
        group=_group(record, at, context, asked),
        id=None if record.get("uid") is None else context.unique(fields.label(record["uid"], f"{at}: uid")),
        outcome=outcome,
        outcomes=fields.parts(numbers, context),
        reference=answer if isinstance(answer, str) else None if answer is None else json.dumps(answer),
        meta=meta,
    )


def _group(record: dict[str, Any], at: str, context: Context, asked: str | None) -> str | None:
    if context.group_by is not None:
        return fields.group(record, at, context, asked)
    if record.get("uid") is not None:
        context.report.note("group guessed from uid")
        uid = fields.label(record["uid"], f"{at}: uid")
        match = _PLACE.match(uid)
        return match[1] if match else uid
    if asked is None:
        return fields.group(record, at, context, asked)
    context.report.note("group guessed from step and input")
    digest = hashlib.blake2b(asked.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    step = record.get("step")
    return digest if step is None else f"{fields.label(step, f'{at}: step')}/{digest}"


register(
    Format("verl", "verl's dumped generations, JSONL: input, output, gts, score, step", sniff, of_records(convert))
)
