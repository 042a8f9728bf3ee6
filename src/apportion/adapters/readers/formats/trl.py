"""Completions that TRL logs while it trains (``log_completions=True``), one Parquet file per step.

    step, prompt, completion, <one column per reward function>, <columns of the user's own>, advantage

Prompt and completion are texts (special tokens dropped, so ids cannot be made again) or, in older versions,
messages. Group = step and prompt: GRPO samples a prompt several times in one step. Two prompts of one text in one
step are one group, and if a step holds several batches of a prompt, they are too; ``--group-by`` names another
column.

The columns whose names end in ``reward``, ``reward_func`` or ``_func``, and every other column of numbers before
``advantage``, are the named parts of the outcome. Their weights are not in the file: one alone is the outcome,
several are added up with weight 1, which is TRL's default, and that is told. A part that is null did not apply. A
completion with no part is unscored. TRL's advantage stays in ``meta``.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation, is_message
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Trajectory
from apportion.errors import FormatError

TAKEN = ("step", "prompt", "completion", "advantage", "images", "image")


def sniff(head: Head) -> tuple[float, str]:
    """Columns step, prompt, completion."""
    for record in head.records:
        if isinstance(record, dict) and {"prompt", "completion"} <= set(record):
            if {"step", "advantage"} <= set(record):
                return 0.95, "columns 'step', 'prompt', 'completion' and 'advantage'"
            if "step" in record and "example_id" not in record:
                return 0.7, "columns 'step', 'prompt' and 'completion'"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One completion."""
    if not isinstance(record, dict) or record.get("completion") is None:
        raise FormatError(f"{at}: no 'completion', so this is no row of TRL's log; remove it")
    chat = conversation(
        _messages(record["completion"], "assistant", f"{at}: completion"),
        at,
        context,
        before=_messages(record.get("prompt"), "user", f"{at}: prompt"),
    )
    outcome, parts = _reward(record, at, context)
    meta = {
        name: fields.kept(record[name], f"{at}: {name}", context) for name in ("step", "advantage") if name in record
    }
    meta |= {
        name: fields.kept(value, f"{at}: {name}", context)
        for name, value in record.items()
        if name not in TAKEN and name not in parts and value is not None
    }
    context.report.note("images of the completions: left out", bool(record.get("images") or record.get("image")))
    return Trajectory(
        chat.steps,
        group=_group(record, at, context, chat.first_user),
        outcome=outcome,
        outcomes=parts if len(parts) > 1 or context.outcome is not None else {},
        final_observation=chat.final_observation,
        meta=meta,
    )


def _messages(value: Any, role: str, at: str) -> list[Any]:
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, list) and all(is_message(message) for message in value):
        return value
    raise FormatError(f"{at} is {fields.kind(value)}; give a text or a list of chat messages")


def _reward(record: dict[str, Any], at: str, context: Context) -> tuple[float | None, dict[str, float]]:
    numbers = {
        name: value
        for name, value in record.items()
        if name not in TAKEN and isinstance(value, int | float) and not isinstance(value, bool)
    }
    named = {
        name for name in numbers if name.lower().endswith(("reward", "_func", "rewards")) or name in fields.REWARDS
    }
    told = {name: value for name, value in numbers.items() if name in named} or numbers
    absent = [name for name, value in told.items() if not math.isfinite(value)]
    context.report.note("reward parts that are not finite: did not apply", len(absent))
    parts = fields.parts({name: value for name, value in told.items() if name not in absent}, context)
    if context.outcome is not None:
        return fields.outcome(record, at, context), parts
    if not parts:
        context.report.note("reward missing: not scored, which is not 0")
        return None, {}
    context.report.note(
        "outcome is the sum of the reward parts with weight 1: weights are not in the file", len(parts) > 1
    )
    return sum(parts.values()), parts


def _group(record: dict[str, Any], at: str, context: Context, first_user: str | None) -> str | None:
    prompt = record.get("prompt")
    if context.group_by is not None or prompt is None:
        return fields.group(record, at, context, first_user)
    context.report.note("group guessed from step and prompt")
    text = prompt if isinstance(prompt, str) else repr(prompt)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    step = record.get("step")
    return digest if step is None else f"{fields.label(step, f'{at}: step')}/{digest}"


register(
    Format(
        "trl",
        "TRL's logged completions, Parquet: step, prompt, completion, rewards, advantage",
        sniff,
        of_records(convert),
    )
)
