"""Chat messages to steps: the shape that most logs of agents share.

    [system] [user] │ assistant │ [tool] [tool] │ assistant │ [user]
    observation 0     action 0     observation 1   action 1    final observation

One assistant message is one turn. With several tool calls it is as many steps of that turn: the first holds what
was said and the first call, each other one its call. What stands between two assistant messages is the observation
of the next step, each message with its role in brackets. Its text is also the state that steps are compared by, so
that equal tool answers are one state; a later call of the same turn adds the calls before it.

The file holds messages, not tokens: a call is shown as ``name(arguments)``, which is not the text that was sampled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from apportion.adapters.readers.fields import STOPPED_BY_LIMIT, kind, number
from apportion.adapters.readers.registry import Context
from apportion.data import Step
from apportion.errors import FormatError

ASSISTANT = ("assistant", "model")
ROLES = (*ASSISTANT, "system", "developer", "user", "tool", "function")

_USED = {
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "reasoning_content",
    "reasoning",
    "refusal",
    "finish_reason",
    "weight",
}


class Conversation(NamedTuple):
    """A chat as steps."""

    steps: tuple[Step, ...]
    final_observation: str | None
    first_user: str | None


class _Call(NamedTuple):
    text: str
    id: str | None
    name: str | None
    extra: dict[str, Any]


def is_message(value: Any) -> bool:
    """An object with a role: one chat message."""
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def conversation(
    messages: Any, at: str, context: Context, *, before: Any = (), truncated: bool = False, terminated: bool = False
) -> Conversation:
    """Steps of a chat.

    Args:
        messages: what happened; its assistant messages were sampled.
        at: where it stands, for the error.
        context: where counts go.
        before: messages of the prompt; assistant messages among them are examples, not sampled.
        truncated, terminated: how the record says that it ended.

    Raises:
        FormatError: something is not a message.
    """
    fold = _Fold(at, context)
    for m, message in enumerate(_listed(before, f"{at}: prompt")):
        fold.heard(_message(message, f"{at}, prompt message {m}"), f"{at}, prompt message {m}")
    for m, message in enumerate(_listed(messages, f"{at}: messages")):
        where = f"{at}, message {m}"
        if _message(message, where)["role"] not in ASSISTANT:
            fold.heard(message, where)
        elif message.get("weight") is not None and number(message["weight"], f"{where}: weight") == 0:
            context.report.note("assistant messages of weight 0: context, not sampled")
            fold.heard(message, where)
        else:
            fold.said(message, where)
    return fold.close(truncated=truncated, terminated=terminated)


@dataclass(slots=True)
class _Fold:
    at: str
    context: Context
    steps: list[Step] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    called: dict[str, str] = field(default_factory=dict)
    first_user: str | None = None
    turn: int = 0
    limited: bool = False

    def heard(self, message: dict[str, Any], at: str) -> None:
        """A message that the policy did not write in this rollout."""
        text = _text(message.get("content"), at, self.context)
        if message["role"] in ASSISTANT:  # an example in the prompt
            text = "\n".join([*filter(None, [text]), *(call.text for call in _calls(message))])
        role, name = message["role"], message.get("name")
        if name is None and isinstance(message.get("tool_call_id"), str):
            name = self.called.get(message["tool_call_id"])
        mark = f"[{role} {name}]" if isinstance(name, str) and name else f"[{role}]"
        self.waiting.append(f"{mark} {text}" if text else mark)
        if role not in ROLES:
            self.context.report.note(f"messages of the unknown role {role!r}: taken as seen, not as sampled")
        if role == "user" and self.first_user is None:
            self.first_user = text
        self._left_out(message)

    def said(self, message: dict[str, Any], at: str) -> None:
        """A message that the policy sampled: one turn."""
        report = self.context.report
        thought = message.get("reasoning_content") or message.get("reasoning")
        content = _text(message.get("content"), at, self.context)
        refusal = message.get("refusal")
        calls = _calls(message)
        broken = sum("parse_error" in call.extra for call in calls)
        report.note("tool calls shown as name(arguments): the sampled text is not in the file", len(calls))
        report.note("tool calls that are not well formed: kept as they are, flagged in extra.parse_error", broken)
        report.note("reasoning that is not text: left out", bool(thought) and not isinstance(thought, str))
        words = [f"<think>{thought}</think>"] if isinstance(thought, str) and thought else []
        words += [content] if content else []
        words += [refusal] if isinstance(refusal, str) and refusal else []
        if not words and not calls:
            report.note("assistant messages without any content: empty actions")
        name = message.get("name")
        agent = name if isinstance(name, str) and name else None
        parts: list[_Call | None] = [*calls] or [None]
        for k, call in enumerate(parts):
            observation = "\n".join(self.waiting) if self.waiting else None
            state = observation
            if observation is None and self.steps:
                last = self.steps[-1]
                state = f"{last.state or ''}\n[{message['role']}] {last.action}"
            said = [*(words if k == 0 else []), *([call.text] if call is not None else [])]
            self.steps.append(
                Step(
                    observation=observation,
                    action="\n".join(said),
                    state=state or "",
                    turn=self.turn,
                    agent=agent,
                    extra={} if call is None else call.extra,
                )
            )
            self.waiting = []
        self.called |= {call.id: call.name for call in calls if call.id is not None and call.name is not None}
        self.turn += 1
        self.limited = message.get("finish_reason") in STOPPED_BY_LIMIT
        self._left_out(message)

    def close(self, *, truncated: bool, terminated: bool) -> Conversation:
        """The steps, the last one flagged."""
        if not self.steps:  # nothing was sampled: still a rollout, with nothing to credit
            self.context.report.note("conversations without an assistant message: one empty action")
            observation = "\n".join(self.waiting) if self.waiting else None
            self.steps, self.waiting = [Step(observation=observation, action="", state=observation or "")], []
        cut = truncated or (self.limited and not self.waiting)
        self.steps[-1] = replace(self.steps[-1], truncated=cut, terminated=terminated and not cut)
        self.context.report.note("ids unknown: text only, words stand in for tokens")
        final = "\n".join(self.waiting) if self.waiting else None
        return Conversation(tuple(self.steps), final, self.first_user)

    def _left_out(self, message: dict[str, Any]) -> None:
        for name, value in message.items():
            if name not in _USED and value not in (None, [], {}, "") and name != "type":
                self.context.report.note(f"message field {name!r} left out")


def _listed(messages: Any, at: str) -> Sequence[Any]:
    if isinstance(messages, list | tuple):
        return messages
    raise FormatError(f"{at} is {kind(messages)}; give a list of chat messages")


def _message(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{at} is {kind(value)}; give an object with role and content")
    if not isinstance(value.get("role"), str):
        raise FormatError(f"{at}: role is {kind(value.get('role'))}; give one of {', '.join(ROLES)}")
    return value


def _text(content: Any, at: str, context: Context) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        raise FormatError(f"{at}: content is {kind(content)}; give a string, a list of parts, or null")
    return "\n".join(_part(part, f"{at}: content part {p}", context) for p, part in enumerate(content))


def _part(part: Any, at: str, context: Context) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise FormatError(f"{at} is {kind(part)}; give a string or an object with a type")
    what = part.get("type")
    for name in ("text", "refusal"):
        if name in part and what not in ("image_url", "image", "input_image"):
            if not isinstance(part[name], str):
                raise FormatError(f"{at}: {name} is {kind(part[name])}; give a string")
            return str(part[name])
    if what in ("thinking", "reasoning") and isinstance(part.get("thinking"), str):
        return f"<think>{part['thinking']}</think>"
    if what in ("image_url", "image", "input_image"):
        context.report.note("images kept by reference")
        return f"[image {_reference(part)}]"
    context.report.note(f"content parts of type {what!r} left out")
    return f"[{what}]"


def _reference(part: dict[str, Any]) -> str:
    """The address of an image; for one written into the message, its kind and a digest, so that images differ."""
    source = next((part[name] for name in ("image_url", "url", "image", "file_id", "path") if part.get(name)), "")
    if isinstance(source, dict):
        source = source.get("url") or ""
    if not isinstance(source, str):
        source = json.dumps(source, sort_keys=True)
    if source.startswith("data:"):
        digest = hashlib.blake2b(source.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
        return f"{source[:64].partition(',')[0]} #{digest}"
    return source or "?"


def _calls(message: dict[str, Any]) -> list[_Call]:
    calls = message.get("tool_calls")
    if calls is None or calls == []:
        calls = [] if message.get("function_call") is None else [{"function": message["function_call"]}]
    return [_call(call) for call in (calls if isinstance(calls, list) else [calls])]


def _call(call: Any) -> _Call:
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
    return _Call(f"{name}({arguments})", identity if isinstance(identity, str) else None, name, extra)


def _raw(call: Any, problem: str) -> _Call:
    text = call if isinstance(call, str) else json.dumps(call, ensure_ascii=False)
    return _Call(text, None, None, {"tool_call": {"raw": text}, "parse_error": problem})


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
