"""AgentBench's ``runs.jsonl``: a history of user and agent, how it ended, and the task's own result.

    {"index": 3, "error": null, "info": null, "output": {"index": 3, "status": "completed", "result": {"result": true},
     "history": [{"role": "user", "content": "…"}, {"role": "agent", "content": "…"}]}, "time": {…}}

AgentInstruct's and ETO's rows (``conversations`` of role or from, ``reward``) are chats and read as such. Here:
group = ``index`` (the sample of the task), name = the same, numbered. The outcome is ``result`` where that is a
number or a boolean, or its ``result``, ``reward``, ``score`` or ``success``; each environment has its own, and one
whose result is anything else is unscored. "agent context limit" and "task limit reached" are truncated, "task error"
and a run with ``error`` are failed and unscored. The first exchange is often the instructions with a fixed "OK": it
was not sampled, but nothing in the file says so.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Trajectory
from apportion.errors import FormatError

CUT_OFF = ("agent context limit", "task limit reached")
BROKEN = ("task error", "unknown", "running")
RESULTS = ("result", "reward", "score", "success")


def sniff(head: Head) -> tuple[float, str]:
    """Records with index and an output that has a history, or the output itself."""
    for record in head.records:
        if isinstance(record, dict):
            output = record.get("output")
            if "index" in record and isinstance(output, dict) and "history" in output:
                return 0.95, "records with 'index' and 'output' of 'status' and 'history'"
            history = record.get("history")
            if isinstance(history, list) and history and isinstance(history[0], dict) and "status" in record:
                return (
                    (0.85, "records with 'status' and 'history'")
                    if history[0].get("role") in ("user", "agent")
                    else (0, "")
                )
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One run."""
    output = record.get("output", record) if isinstance(record, dict) else None
    error = record.get("error") if isinstance(record, dict) else None
    if output is None and error:
        output = {}
    if not isinstance(output, dict) or ("history" not in output and not error):
        raise FormatError(f"{at}: no 'output' with a history, so this is no run of AgentBench; remove it")
    history = output.get("history") or []
    if not isinstance(history, list):
        raise FormatError(f"{at}: history is {fields.kind(history)}; give a list of messages")
    status = output.get("status")
    broke = bool(error) or status in BROKEN
    chat = conversation(
        [_message(message) for message in history],
        at,
        context,
        truncated=status in CUT_OFF,
        terminated=status == "completed",
    )
    steps, outcome = chat.steps, None
    if broke:
        context.report.note("runs that broke (error, task error): failed and unscored")
        steps = (*steps[:-1], replace(steps[-1], failed=True, truncated=False, terminated=False))
    else:
        outcome = _outcome(record, output.get("result"), at, context)
    index = record.get("index", output.get("index"))
    name = None if index is None else fields.label(index, f"{at}: index")
    if context.group_by is not None or name is None:
        group = fields.group(record, at, context, chat.first_user)
    else:
        context.report.note("group from index, the sample of the task")
        group = name
    meta = fields.rest(record, ("index", "output", "history"), at, context)
    meta["result"] = fields.kept(output.get("result"), f"{at}: result", context)
    meta["status"] = fields.kept(status, f"{at}: status", context)
    return Trajectory(
        steps,
        group=group,
        id=None if name is None else context.unique(name),
        outcome=outcome,
        final_observation=chat.final_observation,
        meta=meta,
    )


def _message(message: Any) -> Any:
    return {**message, "role": "assistant"} if isinstance(message, dict) and message.get("role") == "agent" else message


def _outcome(record: Any, result: Any, at: str, context: Context) -> float | None:
    if context.outcome is not None:
        return fields.outcome(record, at, context)
    if isinstance(result, dict):
        result = fields.first(result, RESULTS)[1]
    if isinstance(result, bool | int | float):
        return fields.number(result, f"{at}: result")
    context.report.note("results that are no number: not scored, which is not 0")
    return None


register(
    Format("agentbench", "AgentBench runs.jsonl: index, output of status, result, history", sniff, of_records(convert))
)
