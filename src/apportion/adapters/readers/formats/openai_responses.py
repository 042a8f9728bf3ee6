"""OpenAI's Responses interface: stored responses, with or without the request, and bare lists of items.

    {"object": "response", "output": [items], "instructions": "…", "input": […]}     a response, its input if logged
    {"request": {"input": […]}, "response": {"output": […]}, "reward": 1}             a pair, as proxies log it
    {"input": [items], "output": [items], "reward": 1}                                the same without the names
    [items]                                                                           one conversation

Reward, group and name: the rules of ``fields``. What is in ``input`` is context, assistant messages included. A
response that names a ``previous_response_id`` and no input lacks its history; nobody can look it up.
"""

from __future__ import annotations

from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.adapters.readers.responses import as_messages, before_of, is_item, ran_out
from apportion.adapters.readers.tokens import of_messages, with_ids
from apportion.data import Trajectory
from apportion.errors import FormatError


def sniff(head: Head) -> tuple[float, str]:
    """A response object, or items."""
    for record in head.records:
        if isinstance(record, list):
            if any(is_item(item) for item in record[:4]):
                return 0.85, "lists of Responses items"
        elif isinstance(record, dict):
            output = _response(record).get("output")
            if isinstance(output, list) and output and all(is_item(item) for item in output[:4]):
                return 0.9, "records whose 'output' is a list of Responses items"
            if is_item(record) and record.get("type") != "message":
                return 0.65, "Responses items"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One response with its input, or one list of items."""
    if isinstance(record, list):
        record = {"output": record}
    if not isinstance(record, dict) or "output" not in _response(record):
        raise FormatError(f"{at}: no 'output', so this is not a response of the Responses interface; remove it")
    response = _response(record)
    request = record.get("request")
    asked = request if isinstance(request, dict) else {**record, **response}
    before = before_of(asked, at, context)
    if not before and response.get("previous_response_id"):
        context.report.note("responses whose history is behind previous_response_id: not in the file")
    after = as_messages(response["output"], f"{at}: output", context)
    chat = conversation(
        after,
        at,
        context,
        before=before,
        truncated=fields.flag(record, fields.TRUNCATED, at) or ran_out(response),
        terminated=fields.flag(record, fields.TERMINATED, at),
    )
    first = next((message["content"] for message in after if message["role"] == "user"), None)
    taken = {"request", "response", "input", "output", "instructions", *fields.IDS}
    taken |= {fields.first(record, fields.REWARDS)[0]}
    if context.group_by is None:
        taken.add(fields.first(record, fields.GROUPS)[0])
    return Trajectory(
        with_ids(chat.steps, of_messages(after, context), context),
        group=fields.group(record, at, context, chat.first_user or (first if isinstance(first, str) else None)),
        id=fields.identity(record if fields.first(record, fields.IDS)[0] else response, at, context),
        outcome=fields.outcome(record, at, context),
        final_observation=chat.final_observation,
        meta=fields.rest(record, taken, at, context),
    )


def _response(record: dict[str, Any]) -> dict[str, Any]:
    inner = record.get("response")
    return inner if isinstance(inner, dict) else record


register(
    Format(
        "openai-responses",
        "OpenAI Responses: stored responses with or without their input, lists of items",
        sniff,
        of_records(convert, whole=is_item),
    )
)
