"""Chat Completions as servers and proxies log them: the response object, with the request beside it where it was kept.

    {"object": "chat.completion", "choices": [{"message": {…}, "finish_reason": "stop"}, …]}
    {"request": {"messages": […]}, "response": {"choices": […]}, "reward": 1}          proxies
    {"custom_id": "…", "response": {"body": {"choices": […]}}}                          OpenAI's batch files

Every choice is one rollout, and the choices of one response are one group (``n`` samples of one prompt), unless a
usual field names another. Token ids are kept where the server returned them (``token_ids`` of the choice,
``prompt_token_ids`` of the response, as vLLM does), log-probabilities where they have one per id. Reward and name:
the rules of ``fields``.
"""

from __future__ import annotations

from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation, is_message
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.adapters.readers.tokens import of_messages, with_ids
from apportion.data import Trajectory
from apportion.errors import FormatError


def sniff(head: Head) -> tuple[float, str]:
    """A response with choices that hold messages."""
    for record in head.records:
        choices = _response(record).get("choices") if isinstance(record, dict) else None
        first = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(first, dict) and (is_message(first.get("message")) or isinstance(first.get("text"), str)):
            return 0.9, "records with 'choices' of a 'message' each"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> list[Trajectory]:
    """Every choice of one response."""
    response = _response(record) if isinstance(record, dict) else {}
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices:
        raise FormatError(f"{at}: no 'choices', so this is no response of Chat Completions; remove it")
    asked = _request(record)
    before = asked.get("messages")
    if before is None and isinstance(asked.get("prompt"), str):
        before = [{"role": "user", "content": asked["prompt"]}]
    context.report.note("responses without their request: the prompt is unknown", before is None)
    name = record.get("custom_id") or fields.first(record, fields.IDS)[1] or response.get("id")
    name = None if name is None else fields.label(name, f"{at}: id")
    out = []
    for k, choice in enumerate(choices):
        where = f"{at}, choice {k}"
        message = _message(choice, where, response)
        chat = conversation([message], where, context, before=before or ())
        group = fields.group(record, where, context, chat.first_user)
        if group is None and name is not None and len(choices) > 1 and context.group_by is None:
            group = name
        taken = ("request", "response", "choices", "messages", "body", fields.first(record, fields.REWARDS)[0])
        meta = fields.rest(record, taken, where, context)
        out.append(
            Trajectory(
                with_ids(chat.steps, of_messages([message], context), context),
                group=group,
                id=None if name is None else context.unique(f"{name}/{k}" if len(choices) > 1 else name),
                outcome=fields.outcome({**record, **choice}, where, context),
                meta=meta,
            )
        )
    return out


def _response(record: dict[str, Any]) -> dict[str, Any]:
    inner = record.get("response", record)
    inner = inner.get("body", inner) if isinstance(inner, dict) else record
    return inner if isinstance(inner, dict) else {}


def _request(record: dict[str, Any]) -> dict[str, Any]:
    inner = next(
        (record[n] for n in ("request", "body", "kwargs", "params") if isinstance(record.get(n), dict)), record
    )
    body = inner.get("body", inner)
    return body if isinstance(body, dict) else {}


def _message(choice: Any, at: str, response: dict[str, Any]) -> dict[str, Any]:
    message = choice.get("message") if isinstance(choice, dict) else None
    if message is None and isinstance(choice, dict) and isinstance(choice.get("text"), str):
        message = {"role": "assistant", "content": choice["text"]}
    if not isinstance(message, dict) or not is_message(message):
        raise FormatError(f"{at}: no message with a role; give what was answered")
    told = choice.get("logprobs")
    told = told.get("content") if isinstance(told, dict) else None
    logp = [one.get("logprob") for one in told if isinstance(one, dict)] if isinstance(told, list) else None
    return {
        **message,
        "role": "assistant",
        "finish_reason": choice.get("finish_reason"),
        "prompt_token_ids": response.get("prompt_token_ids") or choice.get("prompt_token_ids"),
        "generation_token_ids": choice.get("token_ids"),
        "generation_log_probs": logp,
    }


register(
    Format(
        "openai-completions",
        "Chat Completions responses: choices, the request beside them where it was logged, batch files",
        sniff,
        of_records(convert),
    )
)
