"""Items of OpenAI's Responses interface as chat messages: what one call of the model gave is one message again.

    reasoning, message, function_call, function_call    one assistant message: thought, text and two calls
    function_call_output                                a tool message

A call ends where a tool answers, somebody else speaks, or thinking or speaking begins anew. Calls of hosted tools
(``web_search_call``, ``code_interpreter_call``, …) are calls too; what they returned, if it is logged, is their
answer.
"""

from __future__ import annotations

import json
from typing import Any

from apportion.adapters.readers.fields import kind
from apportion.adapters.readers.registry import Context
from apportion.errors import FormatError

IDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
_ABOUT = {"id", "type", "status", "call_id", "name", "arguments", "input", "output", "outputs", "results", "result"}
_ABOUT |= {"error", *IDS}


def is_item(value: Any) -> bool:
    """An object as ``input`` and ``output`` hold them."""
    if not isinstance(value, dict):
        return False
    what = value.get("type")
    return isinstance(what, str) and (what in ("message", "reasoning") or what.endswith(("_call", "_call_output")))


def before_of(asked: dict[str, Any], at: str, context: Context) -> list[dict[str, Any]]:
    """Chat messages that a request begins with: its instructions, and what is in ``input``."""
    before = as_messages(asked.get("input"), f"{at}: input", context)
    if isinstance(asked.get("instructions"), str) and asked["instructions"]:
        before.insert(0, {"role": "system", "content": asked["instructions"]})
    return before


def ran_out(response: dict[str, Any]) -> bool:
    """Whether the response ended at its limit of tokens."""
    reason = response.get("incomplete_details")
    return isinstance(reason, dict) and reason.get("reason") == "max_output_tokens"


def as_messages(items: Any, at: str, context: Context) -> list[dict[str, Any]]:
    """Chat messages of a text or a list of items.

    Raises:
        FormatError: something is no item.
    """
    if items is None:
        return []
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise FormatError(f"{at} is {kind(items)}; give a text or a list of items")
    fold = _Fold(context)
    for k, item in enumerate(items):
        where = f"{at}, item {k}"
        if not isinstance(item, dict):
            raise FormatError(f"{where} is {kind(item)}; give an object with a type")
        fold.take(item, where)
    fold.flush()
    return fold.messages


class _Fold:
    def __init__(self, context: Context) -> None:
        self.context = context
        self.messages: list[dict[str, Any]] = []
        self.open: dict[str, Any] | None = None

    def take(self, item: dict[str, Any], at: str) -> None:
        what = item.get("type", "message" if "role" in item else None)
        if what == "message":
            self._message(item, at)
        elif what == "reasoning":
            self._own(anew="content" in (self.open or {}) or "tool_calls" in (self.open or {}), item=item)
            self._thought(item)
        elif isinstance(what, str) and what.endswith("_call_output"):
            self._answer(item.get("call_id"), item.get("output"))
        elif isinstance(what, str) and what.endswith("_call"):
            self._call(item, what)
        else:
            self.context.report.note(f"items of type {str(what)[:40]!r} left out")

    def flush(self) -> None:
        if self.open is not None:
            self.messages.append(self.open)
            self.open = None

    def _own(self, *, anew: bool, item: dict[str, Any]) -> dict[str, Any]:
        """The message of the call at work; another one where the model was called again."""
        if anew:
            self.flush()
        if self.open is None:
            self.open = {"role": "assistant"}
        for name in IDS:
            if item.get(name):
                self.open[name] = item[name]
        return self.open

    def _message(self, item: dict[str, Any], at: str) -> None:
        role = item.get("role")
        if not isinstance(role, str):
            raise FormatError(f"{at}: role is {kind(role)}; give one of user, assistant, system, developer")
        if role != "assistant":
            self.flush()
            told = ("role", "name", "content")
            self.messages.append({name: item[name] for name in told if item.get(name) is not None})
            return
        message = self._own(anew="content" in (self.open or {}) or "tool_calls" in (self.open or {}), item=item)
        message["content"] = item.get("content")
        for name in ("name", "weight"):
            if item.get(name) is not None:
                message[name] = item[name]
        if item.get("status") == "incomplete":
            message["finish_reason"] = "length"

    def _thought(self, item: dict[str, Any]) -> None:
        assert self.open is not None
        parts = item.get("content") or item.get("summary")
        texts = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else [parts]
        told = [text for text in texts if isinstance(text, str) and text]
        if told:
            before = [self.open["reasoning_content"]] if "reasoning_content" in self.open else []
            self.open["reasoning_content"] = "\n".join([*before, *told])
        hidden = bool(item.get("encrypted_content")) or not told
        self.context.report.note("reasoning that is encrypted or not logged: left out", hidden and not told)

    def _call(self, item: dict[str, Any], what: str) -> None:
        message = self._own(anew=False, item=item)
        name = item.get("name") if isinstance(item.get("name"), str) else what.removesuffix("_call")
        given = next((item[key] for key in ("arguments", "input") if item.get(key) is not None), None)
        if given is None:
            given = {key: value for key, value in item.items() if key not in _ABOUT and value is not None}
        if what == "custom_tool_call" and isinstance(given, str):  # free text, not JSON
            given = {"input": given}
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
        identity = item.get("call_id") or item.get("id")
        message.setdefault("tool_calls", []).append({"id": identity, "function": {"name": name, "arguments": text}})
        found = next((item[key] for key in ("output", "outputs", "results", "result") if item.get(key)), None)
        if found is not None:
            self._answer(identity, found)

    def _answer(self, identity: Any, output: Any) -> None:
        self.flush()
        if isinstance(output, dict) or (isinstance(output, list) and not all(_is_part(part) for part in output)):
            if isinstance(output, dict) and str(output.get("type", "")).endswith("screenshot"):
                output = [{**output, "type": "image_url"}]
            else:
                output = json.dumps(output, ensure_ascii=False)
        self.messages.append({"role": "tool", "tool_call_id": identity, "content": output})


def _is_part(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, dict) and "type" in value)
