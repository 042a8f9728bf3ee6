"""What a GenAI span says of one call of a model, as chat messages, in the generations of the conventions.

gen_ai.input.messages, gen_ai.output.messages, gen_ai.system_instructions      messages of parts (JSON; 1.37 on)
events gen_ai.system.message, gen_ai.user.message, …, gen_ai.choice             one event per message (1.28 on)
gen_ai.prompt.0.role, gen_ai.prompt.0.content, gen_ai.completion.0.content      numbered attributes (OpenLLMetry)
gen_ai.prompt, gen_ai.completion on the span or on its events                   JSON or text (the first ones)
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from apportion.adapters.readers.spans import Span, structured

CALLS = ("chat", "text_completion", "generate_content")
_NUMBERED = re.compile(r"gen_ai\.(prompt|completion)\.(\d{1,6})\.(.+)")
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant"}
Messages = list[dict[str, Any]]


class Exchange(NamedTuple):
    """The messages that went in, and those that came out."""

    asked: Messages
    said: Messages


def is_call(span: Span) -> bool:
    """A call of a model, by its operation, or by what it holds."""
    operation = span.attributes.get("gen_ai.operation.name")
    if operation is not None:
        return operation in CALLS
    return "llm.request.type" in span.attributes or any(
        name in span.attributes
        for name in ("gen_ai.output.messages", "gen_ai.completion.0.content", "gen_ai.completion")
    )


def exchange(span: Span) -> Exchange:
    """The messages of a call; both empty where content was not captured."""
    given = span.attributes
    asked = [_message(m) for m in _listed(structured(given.get("gen_ai.input.messages")))]
    said = [_message(m) for m in _listed(structured(given.get("gen_ai.output.messages")))]
    instructions = structured(given.get("gen_ai.system_instructions"))
    if instructions:
        parts = instructions if isinstance(instructions, list) else [instructions]
        asked.insert(0, _message({"role": "system", "parts": parts}))
    if not asked and not said:
        asked, said = _numbered(given)
    if not asked and not said:
        asked, said = _events(span)
    if not asked and not said:
        asked, said = _texts(given)
    for message in said:
        message["role"] = "assistant"
    reasons = given.get("gen_ai.response.finish_reasons")
    if said and isinstance(reasons, list) and reasons and isinstance(reasons[0], str):
        said[-1].setdefault("finish_reason", reasons[0])
    return Exchange([_flat(m) for m in asked], [_flat(m) for m in said])


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _message(value: Any) -> dict[str, Any]:
    """A message of parts as a chat message."""
    if not isinstance(value, dict):
        return {"role": "user", "content": value if isinstance(value, str) else json.dumps(value)}
    role = str(value.get("role", "user"))
    out: dict[str, Any] = {"role": _ROLES.get(role.lower(), role)}
    for name in ("name", "finish_reason"):
        if isinstance(value.get(name), str):
            out[name] = value[name]
    if "parts" not in value:
        out |= {n: value[n] for n in ("content", "tool_calls", "tool_call_id", "reasoning_content") if n in value}
        return out
    content: list[Any] = []
    for part in _listed(value["parts"]):
        what = part.get("type") if isinstance(part, dict) else None
        if what == "tool_call":
            call = {"id": part.get("id"), "function": {"name": part.get("name"), "arguments": part.get("arguments")}}
            out.setdefault("tool_calls", []).append(call)
        elif what in ("tool_call_response", "tool_response"):
            answer = next((part[n] for n in ("response", "result", "content") if part.get(n) is not None), None)
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            content.append({"type": "tool_result", "tool_use_id": part.get("id"), "content": text})
        elif what in ("text", "reasoning"):
            content.append({"type": what, "text": part.get("content")} if isinstance(part.get("content"), str) else "")
        elif what in ("uri", "file", "blob") and part.get("modality", "image") == "image":
            content.append({"type": "image", "image": part.get("uri") or part.get("file_id") or _data(part)})
        else:
            content.append(part if isinstance(part, str | dict) else str(part))
    out["content"] = content or None
    return out


def _data(part: dict[str, Any]) -> str:
    return f"data:{part.get('mime_type') or 'image'};base64,{part.get('content')}"


def _numbered(given: dict[str, Any]) -> tuple[Messages, Messages]:
    """OpenLLMetry's attributes, one per field of a message."""
    found: dict[str, dict[int, dict[str, Any]]] = {"prompt": {}, "completion": {}}
    for name, value in given.items():
        match = _NUMBERED.fullmatch(name)
        if match is None:
            continue
        message = found[match[1]].setdefault(int(match[2]), {})
        inner = match[3].split(".")
        if inner[0] == "tool_calls" and len(inner) == 3 and inner[1].isdigit():
            message.setdefault("calls", {}).setdefault(int(inner[1]), {})[inner[2]] = value
        elif inner[0] in ("role", "content", "finish_reason", "tool_call_id", "reasoning"):
            message[inner[0]] = structured(value) if inner[0] == "content" and str(value)[:1] == "[" else value
    out = []
    for side, role in (("prompt", "user"), ("completion", "assistant")):
        messages = []
        for _, told in sorted(found[side].items()):
            calls = [{"id": call.get("id"), "function": call} for _, call in sorted(told.pop("calls", {}).items())]
            messages.append({"role": role, **told, **({"tool_calls": calls} if calls else {})})
        out.append(messages)
    return out[0], out[1]


def _events(span: Span) -> tuple[Messages, Messages]:
    """One event per message."""
    asked: Messages = []
    said: Messages = []
    for name, given in span.events:
        body = {key.removeprefix("gen_ai.event."): structured(value) for key, value in given.items()}
        if name == "gen_ai.choice":
            inner = body.get("message")
            said.append(_message(inner if isinstance(inner, dict) else body))
            if isinstance(body.get("finish_reason"), str):
                said[-1]["finish_reason"] = body["finish_reason"]
        elif name.startswith("gen_ai.") and name.endswith(".message"):
            role = name.removeprefix("gen_ai.").removesuffix(".message")
            message = _message({"role": role, **body})
            if role == "tool" and isinstance(body.get("id"), str):
                message["tool_call_id"] = body["id"]
            asked.append(message)
        elif name in (
            "gen_ai.content.prompt",
            "gen_ai.content.completion",
            "gen_ai.client.inference.operation.details",
        ):
            for one, side in ((_texts(given)[0], asked), (_texts(given)[1], said)):
                side += one
            for key, side in (("gen_ai.input.messages", asked), ("gen_ai.output.messages", said)):
                side += [_message(m) for m in _listed(body.get(key))]
    return asked, said


def _texts(given: dict[str, Any]) -> tuple[Messages, Messages]:
    """Prompt and completion as JSON messages or as text."""
    out: list[Messages] = []
    for name, role in (("gen_ai.prompt", "user"), ("gen_ai.completion", "assistant")):
        value = structured(given.get(name))
        messages = value if isinstance(value, list) else [] if value in (None, "") else [value]
        out.append([_message({"role": role, **m} if isinstance(m, dict) else m) for m in messages])
    return out[0], out[1]


def _flat(message: dict[str, Any]) -> dict[str, Any]:
    """Without the fields that say nothing."""
    return {name: value for name, value in message.items() if value is not None}
