"""ShareGPT and its relatives: who spoke under ``from``, what under ``value``.

    {"conversations": [{"from": "human", "value": "…"}, {"from": "gpt", "value": "…"}], "system": "…", "tools": "[…]"}
    {"messages": [{"from": "human", "value": "…"}, …]}, {"conversation": …}, [{"from": …}, …]        the same

human and user are seen; gpt, assistant, model, chatgpt, bot, bing and bard are sampled; function_call is a sampled
tool call (JSON with name and arguments), observation, function_response and tool are its answer. Usually instruction
data without a reward; a turn with ``weight`` 0, ``loss`` or ``train`` false is context; ``label`` of KTO rows (true
or false) is a verdict and counts as 1 or 0. ``images`` are kept by name.
"""

from __future__ import annotations

import json
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import Conversation, conversation
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Trajectory
from apportion.errors import FormatError

CHATS = ("conversations", "conversation", "messages", "items")
ROLE = {
    **dict.fromkeys(("human", "user", "prompter"), "user"),
    **dict.fromkeys(("gpt", "assistant", "model", "chatgpt", "bot", "bing", "bard"), "assistant"),
    **dict.fromkeys(("observation", "function_response", "function-response", "tool", "tool_response"), "tool"),
    "system": "system",
}
CALLS = ("function_call", "function-call", "tool_call")


def is_turn(value: Any) -> bool:
    """An object with ``from`` and ``value``."""
    return isinstance(value, dict) and isinstance(value.get("from"), str) and "value" in value


def sniff(head: Head) -> tuple[float, str]:
    """Records with a list of turns, or such a list."""
    for record in head.records:
        if isinstance(record, list) and record and is_turn(record[0]):
            return 0.85, "lists of turns with 'from' and 'value'"
        name = _chat(record)
        if name and record[name] and is_turn(record[name][0]):
            return 0.85, f"records with {name!r} of 'from' and 'value'"
    return 0.0, ""


def turns(value: Any, at: str, context: Context) -> list[dict[str, Any]]:
    """The turns as chat messages.

    Raises:
        FormatError: something is no turn.
    """
    if not isinstance(value, list):
        raise FormatError(f"{at} is {fields.kind(value)}; give a list of turns with from and value")
    return [message(turn, f"{at}, turn {k}", context) for k, turn in enumerate(value)]


def message(turn: Any, at: str, context: Context) -> dict[str, Any]:
    """One turn as a chat message."""
    if not isinstance(turn, dict):
        raise FormatError(f"{at} is {fields.kind(turn)}; give an object with from and value")
    who = turn.get("from")
    if not isinstance(who, str):
        raise FormatError(f"{at}: from is {fields.kind(who)}; give human, gpt, system, function_call or observation")
    if turn.get("value") is not None and not isinstance(turn["value"], str | list):
        raise FormatError(f"{at}: value is {fields.kind(turn['value'])}; give a text")
    more = {name: turn[name] for name in ("weight", "name") if turn.get(name) is not None}
    if turn.get("loss") is False or turn.get("train") is False:
        more["weight"] = 0
    if who in CALLS:
        return {"role": "assistant", "content": None, "tool_calls": _called(turn.get("value")), **more}
    for name in turn:
        if name not in ("from", "value", "weight", "name", "loss", "train"):
            context.report.note(f"turn field {name[:40]!r} left out")
    return {"role": ROLE.get(who.lower(), who), "content": turn.get("value"), **more}


def rollout(record: dict[str, Any], messages: list[dict[str, Any]], at: str, context: Context) -> Conversation:
    """The steps of a chat, its system prompt, and its tools as they are told beside it."""
    before = []
    if isinstance(record.get("system"), str) and record["system"]:
        before.append({"role": "system", "content": record["system"]})
    return conversation(messages, at, context, before=before)


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One conversation."""
    if isinstance(record, list):
        record = {"conversations": record}
    name = _chat(record)
    if not name:
        raise FormatError(f"{at}: no 'conversations', so this is no ShareGPT record; remove it")
    chat = rollout(record, turns(record[name], at, context), at, context)
    verdict = record.get("label") if isinstance(record.get("label"), bool) else None
    verdict = record["kto_tag"] if isinstance(record.get("kto_tag"), bool) else verdict
    taken = {name, "system", fields.first(record, fields.REWARDS)[0], fields.first(record, fields.IDS)[0]}
    if context.group_by is None:
        taken.add(fields.first(record, fields.GROUPS)[0])
    if context.outcome is not None:
        verdict = None
    if verdict is not None:
        context.report.note("verdicts (label, kto_tag) as outcome: true is 1, false is 0")
    return Trajectory(
        chat.steps,
        group=fields.group(record, at, context, chat.first_user),
        id=fields.identity(record, at, context),
        outcome=float(verdict) if verdict is not None else fields.outcome(record, at, context),
        final_observation=chat.final_observation,
        meta={**fields.rest(record, taken, at, context), **_tools(record, at, context)},
    )


def _chat(record: Any) -> str:
    if not isinstance(record, dict):
        return ""
    return next((name for name in CHATS if isinstance(record.get(name), list)), "")


def _called(value: Any) -> list[Any]:
    """Tool calls from the text of one; what is not JSON stays a text and is flagged where calls are read."""
    try:
        told = json.loads(value)
    except (TypeError, ValueError, RecursionError):
        return [value if value is not None else ""]
    return told if isinstance(told, list) and told else [told if isinstance(told, dict) else value]


def _tools(record: dict[str, Any], at: str, context: Context) -> dict[str, Any]:
    """The tools, which are often JSON inside a text."""
    told = record.get("tools")
    if not isinstance(told, str):
        return {}
    try:
        return {"tools": fields.kept(json.loads(told), f"{at}: tools", context)}
    except (ValueError, RecursionError):
        return {"tools": told}


register(
    Format(
        "sharegpt",
        "ShareGPT: conversations of from and value, with function_call and observation",
        sniff,
        of_records(convert, whole=is_turn),
    )
)
