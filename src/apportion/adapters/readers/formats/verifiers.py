"""Results of verifiers environments, version 0: one rollout a line.

    {"example_id": 0, "prompt": [messages], "completion": [messages], "reward": 1.4, "format_reward_func": 0.9, …}

Group = ``example_id``; the name adds the number of the rollout, in order of the file. Prompt and completion may be
text. A rollout with an ``error`` is failed and unscored. Assistant messages of the prompt are examples, not sampled.
The parts of the reward (every other number that is not a duration) are kept together in ``meta["reward_parts"]``;
their weights are not in the file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Trajectory
from apportion.errors import FormatError

TAKEN = ("prompt", "completion", "reward", "example_id", "metrics")


def sniff(head: Head) -> tuple[float, str]:
    """Records with prompt and completion."""
    for record in head.records:
        if isinstance(record, dict) and "prompt" in record and "completion" in record:
            if "example_id" in record:
                return 0.95, "records with 'example_id', 'prompt' and 'completion'"
            return 0.6, "records with 'prompt' and 'completion'"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One rollout."""
    if not isinstance(record, dict) or "completion" not in record:
        raise FormatError(f"{at}: no 'completion', so this is not a result of verifiers; remove it")
    chat = conversation(
        _messages(record["completion"], "assistant", f"{at}: completion"),
        at,
        context,
        before=_messages(record.get("prompt"), "user", f"{at}: prompt"),
        truncated=fields.flag(record, fields.TRUNCATED, at),
    )
    group = fields.group(record, at, context, chat.first_user)
    name = fields.identity(record, at, context)
    if name is None and record.get("example_id") is not None:
        example = fields.label(record["example_id"], f"{at}: example_id")
        context.names[f"verifiers {example}"] += 1
        name = context.unique(f"{example}/{context.names[f'verifiers {example}'] - 1}")
    steps, outcome = chat.steps, None
    if record.get("error"):
        context.report.note("rollouts that broke (error): failed and unscored")
        steps = (*steps[:-1], replace(steps[-1], failed=True))
    else:
        outcome = fields.outcome(record, at, context)
    answer = record.get("answer")
    meta = fields.rest(record, TAKEN, at, context)
    parts = _parts(record, at, context)
    for part in parts:
        meta.pop(part, None)
    if parts:
        meta["reward_parts"] = parts
    return Trajectory(
        steps,
        group=group,
        id=name,
        outcome=outcome,
        final_observation=chat.final_observation,
        reference=answer if isinstance(answer, str) and answer else None,
        meta=meta,
    )


def _messages(value: Any, role: str, at: str) -> Any:
    """Messages as they are; a text as one message of the role."""
    if value is None:
        return []
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, list):
        return value
    raise FormatError(f"{at} is {fields.kind(value)}; give a text or a list of chat messages")


def _parts(record: dict[str, Any], at: str, context: Context) -> dict[str, Any]:
    inner = record.get("metrics")
    numbers = {**record, **(inner if isinstance(inner, dict) else {})}
    return {
        name: fields.kept(value, f"{at}: {name}", context)
        for name, value in numbers.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and name not in TAKEN
        and not name.endswith(("_ms", "_id"))
    }


register(
    Format(
        "verifiers",
        "verifiers results, version 0: example_id, prompt, completion, reward and its parts",
        sniff,
        of_records(convert),
    )
)
