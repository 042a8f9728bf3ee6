"""Pieces of a message: text, images by reference, reasoning, tool calls and tool results, in the dialects of the trade.

Content is a string, null, one part, or a list of parts. Known parts are those of the Chat Completions and Responses
interfaces of OpenAI and of Anthropic's Messages (``thinking``, ``tool_use``, ``tool_result``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from apportion.adapters.readers.fields import kind
from apportion.adapters.readers.registry import Context
from apportion.errors import FormatError

IMAGES = ("image_url", "image", "input_image")
THOUGHTS = ("thinking", "redacted_thinking", "reasoning")
APART = (*THOUGHTS, "tool_use", "tool_result")
"""Parts that are no text of the message: `thought`, `calls_of` and `results_of` read them."""


class Call(NamedTuple):
    """A tool call as it is shown, and as data for `Step.extra`."""

    text: str
    id: str | None
    name: str | None
    extra: dict[str, Any]


def listed_parts(content: Any, at: str) -> list[Any]:
    """The parts of a content, whatever its form.

    Raises:
        FormatError: a content that is none.
    """
    if content is None:
        return []
    if isinstance(content, str | dict):
        return [content]
    if not isinstance(content, list):
        raise FormatError(f"{at}: content is {kind(content)}; give a string, a list of parts, or null")
    for p, part in enumerate(content):
        if not isinstance(part, str | dict):
            raise FormatError(f"{at}: content part {p} is {kind(part)}; give a string or an object with a type")
    return content


def text_of(content: Any, at: str, context: Context) -> str:
    """What is readable of a content; what is not is counted."""
    parts = enumerate(listed_parts(content, at))
    return "\n".join(_text(part, f"{at}: content part {p}", context) for p, part in parts if not _apart(part))


def thought_of(message: dict[str, Any], at: str, context: Context) -> str:
    """The reasoning of a message, from its fields or its parts; "" where there is none or it cannot be read."""
    told = next((message[name] for name in ("reasoning_content", "reasoning", "thinking") if message.get(name)), None)
    if isinstance(told, str):
        return told
    context.report.note("reasoning that is not text: left out", told is not None)
    found = []
    for part in listed_parts(message.get("content"), at):
        if isinstance(part, dict) and part.get("type") in THOUGHTS:
            text = next(
                (part[name] for name in ("thinking", "text", "content") if isinstance(part.get(name), str)), None
            )
            context.report.note("reasoning that is not text: left out", text is None)
            found += [text] if text else []
    return "\n".join(found)


def calls_of(message: dict[str, Any]) -> list[Call]:
    """The tool calls of a message: ``tool_calls``, the old ``function_call``, or ``tool_use`` among its parts."""
    calls = message.get("tool_calls")
    if calls is None or calls == []:
        calls = [] if message.get("function_call") is None else [{"function": message["function_call"]}]
    content = message.get("content")
    uses = [part for part in content if _is(part, "tool_use")] if isinstance(content, list) else []
    listed = calls if isinstance(calls, list) else [calls]
    return [*map(_call, listed), *(_call({"arguments": use.get("input"), **use}) for use in uses)]


def results_of(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The tool results among the parts of a message, each as a message of its own."""
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        if _is(part, "tool_result"):
            yield {"role": "tool", "tool_call_id": part.get("tool_use_id"), "content": part.get("content")}


def _is(part: Any, what: str) -> bool:
    return isinstance(part, dict) and part.get("type") == what


def _apart(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in APART


def _text(part: Any, at: str, context: Context) -> str:
    if isinstance(part, str):
        return part
    what = part.get("type")
    if what in IMAGES or (what is None and "image_url" in part):
        context.report.note("images kept by reference")
        return f"[image {_reference(part)}]"
    for name in ("text", "refusal"):
        if name in part:
            if not isinstance(part[name], str):
                raise FormatError(f"{at}: {name} is {kind(part[name])}; give a string")
            return str(part[name])
    context.report.note(f"content parts of type {str(what)[:40]!r} left out")
    return f"[{str(what)[:40]}]"


def _reference(part: dict[str, Any]) -> str:
    """The address of an image; for one written into the message, its kind and a digest, so that images differ."""
    names = ("image_url", "url", "image", "source", "file_id", "path", "data")
    source = next((part[name] for name in names if part.get(name)), "")
    if isinstance(source, dict):
        if isinstance(source.get("data"), str):
            source = f"data:{source.get('media_type') or source.get('mime_type') or 'image'};base64,{source['data']}"
        else:
            source = next((source[name] for name in ("url", "path", "file_id") if source.get(name)), "")
    if not isinstance(source, str):
        source = json.dumps(source, sort_keys=True)
    if source.startswith("data:") or len(source) > 2000:
        digest = hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        return f"{source[:64].partition(',')[0]} #{digest}"
    return source or "?"


def _call(call: Any) -> Call:
    """A tool call as ``name(arguments)``; one that is not well formed as it stands, with what is wrong with it."""
    if not isinstance(call, dict):
        return _raw(call, f"the tool call is {kind(call)}, not an object")
    function = call.get("function", call)
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return _raw(call, "the tool call has no function name")
    name, given = function["name"], function.get("arguments")
    arguments = "" if given is None else given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    about = {"name": name, "arguments": arguments}
    identity = call.get("id")
    if isinstance(identity, str):
        about["id"] = identity
    extra: dict[str, Any] = {"tool_call": about}
    problem = _problem(arguments)
    if problem:
        extra["parse_error"] = problem
    return Call(f"{name}({arguments})", identity if isinstance(identity, str) else None, name, extra)


def _raw(call: Any, problem: str) -> Call:
    text = call if isinstance(call, str) else json.dumps(call, ensure_ascii=False)
    return Call(text, None, None, {"tool_call": {"raw": text}, "parse_error": problem})


def _problem(arguments: str) -> str:
    if not arguments.strip():
        return ""  # a call without arguments
    try:
        value = json.loads(arguments)
    except json.JSONDecodeError as error:
        return f"the arguments are not JSON ({error.msg} at character {error.pos})"
    except (ValueError, RecursionError):
        return "the arguments cannot be read as JSON"
    return "" if isinstance(value, dict) else f"the arguments are {kind(value)}, not an object"
