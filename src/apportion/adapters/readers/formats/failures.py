"""Logs of failed multi-agent runs in which people marked who made the decisive mistake, and when.

    {"question": "…", "question_ID": "…", "ground_truth": "…", "is_correct": false, "history": [{"role", "name",
     "content"}, …], "mistake_agent": "WebSurfer", "mistake_step": "12", "mistake_reason": "…"}          Who&When
    {"mas_name": "AG2", "benchmark_name": "…", "trace_id": 3, "trace": {"trajectory": […]},
     "mast_annotation": {"1.1": 0, …}}

Every message of an agent is one step; its agent is the ``name``, or the role where there is none (``Orchestrator (->
X)`` and ``Orchestrator (thought)`` are both Orchestrator). People and terminals are no agents: what they say is
observed.

The label is in ``meta``: ``mistake_step``, the number of our step; ``mistake_message``, that of the message in the
log; ``mistake_agent``, ``mistake_reason``, ``mistake_type``. Where the marked message is no step (a terminal's)
``mistake_step`` is absent, and that is counted. MAST's annotations are ``meta["failure_modes"]``, of the whole run;
its raw logs, which are one text with the conventions of each system, are refused: no rule tells their agents apart.

Outcome: ``is_correct`` (or ``is_corrected``), 1 or 0. Group: ``question_ID``. The ground truth is the reference.
"""

from __future__ import annotations

import re
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Trajectory
from apportion.errors import FormatError

LABELS = ("mistake_agent", "mistake_step", "mistake_reason", "mistake_type")
TAKEN = ("question", "question_ID", "ground_truth", "is_correct", "is_corrected", "history", "trace", *LABELS)
NO_AGENTS = ("human", "user", "system", "tool", "computer_terminal", "computerterminal", "terminal", "environment")
_ASIDE = re.compile(r"\s*\((?:->|thought|termination).*\)\s*$")


def sniff(head: Head) -> tuple[float, str]:
    """Records with a history and the mark."""
    for record in head.records:
        if isinstance(record, dict):
            if "history" in record and "mistake_agent" in record and "mistake_step" in record:
                return 0.95, "records with 'history', 'mistake_agent' and 'mistake_step'"
            if "mas_name" in record and ("mast_annotation" in record or "annotations" in record):
                return 0.9, "records with 'mas_name' and annotations of failure modes"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One failed run."""
    if not isinstance(record, dict):
        raise FormatError(f"{at} is {fields.kind(record)}; give an object with a history")
    history = _history(record, at)
    messages: list[dict[str, Any]] = []
    if isinstance(record.get("question"), str) and not _asks(history):
        messages.append({"role": "user", "content": record["question"]})
    step_of: list[int | None] = []
    for k, message in enumerate(history):
        who = _speaker(message, f"{at}, message {k}")
        own = who.lower() not in NO_AGENTS
        step_of.append(sum(one is not None for one in step_of) if own else None)
        role = "assistant" if own else "user" if who.lower() in ("human", "user") else "tool"
        messages.append({"role": role, "name": who if role != "user" else None, "content": message.get("content")})
    chat = conversation(messages, at, context)
    meta = fields.rest(record, TAKEN, at, context)
    meta |= _label(record, step_of, at, context)
    if isinstance(record.get("mast_annotation"), dict):
        meta["failure_modes"] = meta.pop("mast_annotation")
    verdicts = () if context.outcome is not None else ("is_correct", "is_corrected")
    correct = next((record[n] for n in verdicts if record.get(n) is not None), None)
    group, name = _names(record, at, context, chat.first_user)
    truth = record.get("ground_truth")
    return Trajectory(
        chat.steps,
        group=group,
        id=None if name is None else context.unique(name),
        outcome=fields.outcome(record, at, context) if correct is None else fields.number(correct, f"{at}: is_correct"),
        final_observation=chat.final_observation,
        reference=truth if isinstance(truth, str) and truth else None,
        meta=meta,
    )


def _history(record: dict[str, Any], at: str) -> list[dict[str, Any]]:
    history = record.get("history")
    if history is None:
        trace = record.get("trace")
        history = trace.get("trajectory") if isinstance(trace, dict) else trace
        if isinstance(history, str):
            system = str(record.get("mas_name", "its system"))[:40]
            raise FormatError(
                f"{at}: the raw log of {system} is one text, whose agents no rule tells apart; give messages"
            )
    if not isinstance(history, list) or not all(isinstance(message, dict) for message in history):
        raise FormatError(f"{at}: history is {fields.kind(history)}; give a list of messages with role and content")
    return history


def _asks(history: list[dict[str, Any]]) -> bool:
    """The log begins with the question itself."""
    return bool(history) and str(history[0].get("role", "")).lower() == "human"


def _speaker(message: dict[str, Any], at: str) -> str:
    who = message.get("name") or message.get("role")
    if not isinstance(who, str):
        raise FormatError(f"{at}: name and role are {fields.kind(who)}; say who spoke")
    return _ASIDE.sub("", who) or who


def _label(record: dict[str, Any], step_of: list[int | None], at: str, context: Context) -> dict[str, Any]:
    """The mark as our keys."""
    out = {
        name: fields.kept(record[name], f"{at}: {name}", context)
        for name in ("mistake_agent", "mistake_reason", "mistake_type")
        if record.get(name) is not None
    }
    told = record.get("mistake_step")
    if told is None:
        return out
    if isinstance(told, str) and told.strip().isascii() and told.strip().isdigit() and len(told) < 10:
        told = int(told)
    if type(told) is not int or not 0 <= told < len(step_of):
        raise FormatError(f"{at}: mistake_step is {told!r:.40}; give the number of a message, 0 to {len(step_of) - 1}")
    out["mistake_message"] = told
    if step_of[told] is None:
        context.report.note("marked messages that no agent wrote: mistake_step left out, see mistake_message")
    else:
        out["mistake_step"] = step_of[told]
    return out


def _names(record: dict[str, Any], at: str, context: Context, first_user: str | None) -> tuple[str | None, str | None]:
    """Group and name."""
    for keys in (("question_ID",), ("mas_name", "benchmark_name", "trace_id")):
        told = [record.get(key) for key in keys]
        if all(value is not None for value in told):
            name = "/".join(fields.label(value, f"{at}: {key}") for key, value in zip(keys, told, strict=True))
            if context.group_by is not None or len(keys) > 1:
                return fields.group(record, at, context, first_user), name
            context.report.note("group from question_ID")
            return name, name
    return fields.group(record, at, context, first_user), None


register(
    Format(
        "failures",
        "multi-agent failure logs with the decisive step: Who&When; MAST where the log is messages",
        sniff,
        of_records(convert),
    )
)
