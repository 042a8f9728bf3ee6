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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from apportion.adapters.readers.fields import STOPPED_BY_LIMIT, kind, number
from apportion.adapters.readers.parts import Call, calls_of, results_of, text_of, thought_of
from apportion.adapters.readers.registry import Context
from apportion.data import Step
from apportion.errors import FormatError

ASSISTANT = ("assistant", "model")
LONG_STATE = 8000
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
    "thinking",
    "refusal",
    "finish_reason",
    "weight",
    "prompt_token_ids",
    "generation_token_ids",
    "generation_log_probs",
}


class Conversation(NamedTuple):
    """A chat as steps."""

    steps: tuple[Step, ...]
    final_observation: str | None
    first_user: str | None


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
    fold = Fold(at, context)
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
class Fold:
    """A chat on its way to steps, message by message.

    Attributes:
        at: where the chat stands, for errors. context: where counts go.
        steps: so far. waiting: what was observed since the last of them, line by line.
        called: names of the tools that calls went to, by id.
        first_user: text of the first user message. turn: how many turns were said.
        limited: the last turn was stopped by a limit on its length.
    """

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
        results = list(results_of(message))
        for result in results:
            self.heard(result, at)
        text = text_of(message.get("content"), at, self.context)
        if results and not text:
            return  # it held nothing but the answers of tools
        if message["role"] in ASSISTANT:  # an example in the prompt
            text = "\n".join([*filter(None, [text]), *(call.text for call in calls_of(message))])
        role, name = message["role"], message.get("name")
        if name is None and isinstance(message.get("tool_call_id"), str):
            name = self.called.get(message["tool_call_id"])
        mark = f"[{role} {name}]" if isinstance(name, str) and name else f"[{role}]"
        self.waiting.append(f"{mark} {text}" if text else mark)
        if role not in ROLES:
            self.context.report.note(f"messages of the unknown role {role[:40]!r}: taken as seen, not as sampled")
        if role == "user" and self.first_user is None:
            self.first_user = text
        self._left_out(message)

    def said(self, message: dict[str, Any], at: str) -> None:
        """A message that the policy sampled: one turn."""
        report = self.context.report
        thought = thought_of(message, at, self.context)
        content = text_of(message.get("content"), at, self.context)
        refusal = message.get("refusal")
        calls = calls_of(message)
        broken = sum("parse_error" in call.extra for call in calls)
        report.note("tool calls shown as name(arguments): the sampled text is not in the file", len(calls))
        report.note("tool calls that are not well formed: kept as they are, flagged in extra.parse_error", broken)
        words = [f"<think>{thought}</think>"] if thought else []
        words += [content] if content else []
        words += [refusal] if isinstance(refusal, str) and refusal else []
        if not words and not calls:
            report.note("assistant messages without any content: empty actions")
        name = message.get("name")
        agent = name if isinstance(name, str) and name else None
        parts: list[Call | None] = [*calls] or [None]
        for k, call in enumerate(parts):
            observation = "\n".join(self.waiting) if self.waiting else None
            state = observation
            if observation is None and self.steps:
                state = state_after(self.steps[-1], f"[{message['role']}] ")
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
        final = "\n".join(self.waiting) if self.waiting else None
        return Conversation(tuple(self.steps), final, self.first_user)

    def _left_out(self, message: dict[str, Any]) -> None:
        for name, value in message.items():
            if name not in _USED and value not in (None, [], {}, "") and name != "type":
                self.context.report.note(f"message field {name[:40]!r} left out")


def state_after(step: Step, mark: str = "") -> str:
    """What to compare the state behind a step by, where nothing was observed: its own state and what was done.

    A long one keeps its end and a digest of all of it, so that thousands of steps in a row stay small.
    """
    text = f"{step.state or ''}\n{mark}{step.action or ''}"
    if len(text) <= LONG_STATE:
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"#{digest}\n{text[-LONG_STATE // 2 :]}"


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
