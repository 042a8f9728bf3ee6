"""Chat messages as the Chat Completions interface has them, with tool calls; the common denominator of agent logs.

    {"messages": [{"role": "user", "content": "…"}, …], "reward": 1, "task_id": "7"}    one a line, or a JSON list
    [{"role": "user", "content": "…"}, …]                                               the same without fields
    {"rollouts": [ … either of these … ]}                                               an object around them

Reward, group and name: the rules of ``fields``. Every other field of a record is kept in ``meta``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import ROLES, conversation, is_message
from apportion.adapters.readers.records import all_of, stream_values
from apportion.adapters.readers.registry import Context, Format, Head, Path, Trajectories, register
from apportion.data import Trajectory
from apportion.errors import FormatError

CHATS = ("messages", "conversation", "chat", "chat_completions")
SPOKEN = ("conversations", "trajectory", "history", "dialogue", "dialog", "turns")
"""Names that hold a chat where their first entry is a message; elsewhere they hold other things."""
AROUND = (
    "conversations",
    "chats",
    "rollouts",
    "trajectories",
    "runs",
    "samples",
    "records",
    "results",
    "items",
    "data",
    "episodes",
)


def sniff(head: Head) -> tuple[float, str]:
    """A list of messages under a usual name, or bare."""
    for record in head.records:
        name = _chat(record)
        if name:
            return (0.8, f"records with {name!r}") if _speaks(record[name]) else (0.5, f"records with {name!r}")
        if isinstance(record, list) and _speaks(record):
            return 0.7, "lists of chat messages"
        if is_message(record) and record["role"] in ROLES:
            return 0.6, "chat messages"
        inner = [item for item, _ in _inside(record, "")] if isinstance(record, dict) else []
        if inner and (_chat(inner[0]) or _speaks(inner[0])):
            return 0.6, "an object around chats"
    return 0.0, ""


def read(path: Path, context: Context) -> Trajectories:
    """One trajectory per chat; message objects that stand in the file one after the other are one chat."""
    loose: list[Any] = []
    start, broken = "", ""
    for item in stream_values(path, whole=is_message):
        if isinstance(item, FormatError):
            if loose:
                broken = broken or str(item)
            else:
                yield item
        elif is_message(item.value) and not _chat(item.value):
            start = start or item.at
            loose.append(item.value)
        else:
            for record, at in _inside(item.value, item.at):
                yield from all_of(_trajectory, record, at, context)
    if broken:
        yield FormatError(f"{broken} (one message of the chat that begins at {start})")
    elif loose:
        yield from all_of(_trajectory, loose, start, context)


def _trajectory(record: Any, at: str, context: Context) -> Trajectory:
    if isinstance(record, list):
        record = {"messages": record}
    if not isinstance(record, dict):
        raise FormatError(f"{at}: {fields.kind(record)} where a chat was expected; give an object with messages")
    name = _chat(record) or next((name for name in CHATS if name in record), "")
    if not name:
        found = ", ".join(repr(key) for key in list(record)[:6]) or "no fields"
        raise FormatError(f"{at}: no chat here; the record needs 'messages' and has {found}")
    chat = conversation(
        record[name],
        f"{at}" if name == "messages" else f"{at}: {name}",
        context,
        truncated=fields.flag(record, fields.TRUNCATED, at)
        or fields.first(record, ("finish_reason",))[1] in fields.STOPPED_BY_LIMIT,
        terminated=fields.flag(record, fields.TERMINATED, at),
    )
    taken = {name, fields.first(record, fields.REWARDS)[0], fields.first(record, fields.IDS)[0]}
    if context.group_by is None:
        taken.add(fields.first(record, fields.GROUPS)[0])
    return Trajectory(
        chat.steps,
        group=fields.group(record, at, context, chat.first_user),
        id=fields.identity(record, at, context),
        outcome=fields.outcome(record, at, context),
        final_observation=chat.final_observation,
        meta=fields.rest(record, taken, at, context),
    )


def _chat(record: Any) -> str:
    """Name of the field that holds the messages; "" where none does."""
    if not isinstance(record, dict):
        return ""
    named = next((name for name in CHATS if isinstance(record.get(name), list)), "")
    return named or next((name for name in SPOKEN if _speaks(record.get(name))), "")


def _speaks(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and is_message(value[0])


def _inside(value: Any, at: str) -> Iterator[tuple[Any, str]]:
    """The records of an object around them, each with its place; any other value is a record itself."""
    if isinstance(value, dict) and not _chat(value):
        for name in AROUND:
            items = value.get(name)
            if isinstance(items, list) and items and all(isinstance(item, dict | list) for item in items):
                yield from ((item, f"{at}, {name} {k}") for k, item in enumerate(items))
                return
    yield value, at


register(
    Format(
        "openai-chat",
        "chat messages with tool calls: JSON, JSONL, with reward and task beside them or without",
        sniff,
        read,
    )
)
