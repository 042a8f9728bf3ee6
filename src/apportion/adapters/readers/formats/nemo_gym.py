"""Rollouts of NeMo Gym: the request and the response of OpenAI's Responses interface, with a reward.

    {"responses_create_params": {"input": […]}, "response": {"output": […]}, "reward": 1.0,
     "_ng_task_index": 0, "_ng_rollout_index": 2, "terminated": true, "truncated": false}

Group = ``_ng_task_index`` (with the agent's name where it has one), name = task/rollout. The index is the row of the
task, not its start state: an environment that deals anew gives one group different first observations, which
`apportion check` finds. Token ids and log-probabilities are kept where every turn has them.
"""

from __future__ import annotations

import json
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.adapters.readers.responses import as_messages, before_of, ran_out
from apportion.adapters.readers.tokens import of_messages, with_ids
from apportion.data import Trajectory
from apportion.errors import FormatError

TAKEN = ("responses_create_params", "response", "reward", "expected_answer", "_ng_task_index", "_ng_rollout_index")


def sniff(head: Head) -> tuple[float, str]:
    """Records with responses_create_params and a response."""
    for record in head.records:
        if isinstance(record, dict) and "responses_create_params" in record:
            return (0.95, "records with 'responses_create_params'") if "response" in record else (0.0, "")
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One rollout."""
    if not isinstance(record, dict) or not isinstance(record.get("responses_create_params"), dict):
        raise FormatError(f"{at}: no 'responses_create_params', so this is not a rollout of NeMo Gym; remove it")
    response = record.get("response")
    if response is not None and not isinstance(response, dict):
        raise FormatError(f"{at}: response is {fields.kind(response)}; give an object with output")
    asked, response = record["responses_create_params"], response or {}
    before = before_of(asked, at, context)
    after = as_messages(_grown(response.get("output"), at, context), f"{at}: output", context)
    chat = conversation(
        after,
        at,
        context,
        before=before,
        truncated=fields.flag(record, fields.TRUNCATED, at) or ran_out(response),
        terminated=fields.flag(record, fields.TERMINATED, at),
    )
    meta = fields.rest(record, TAKEN, at, context)
    if asked.get("tools"):
        meta["tools"] = fields.kept(asked["tools"], f"{at}: tools", context)
    if response.get("model"):
        meta["model"] = fields.kept(response["model"], f"{at}: model", context)
    context.report.note("sampling parameters and usage of the request and the response: left out")
    return Trajectory(
        with_ids(chat.steps, of_messages(after, context), context),
        group=_group(record, at, context, chat.first_user),
        id=_name(record, at, context),
        outcome=fields.outcome(record, at, context),
        final_observation=chat.final_observation,
        reference=_reference(record),
        meta=meta,
    )


def _grown(output: Any, at: str, context: Context) -> Any:
    """The items; of a list of histories, each of which extends the one before, the last."""
    if not isinstance(output, list) or not output or not all(isinstance(part, list) for part in output):
        return output
    last = output[-1]
    if any(last[: len(part)] != part for part in output):
        raise FormatError(f"{at}: output holds histories that do not extend each other; give one list of items")
    context.report.note("outputs logged once per step: the last, which holds the others, was read")
    return last


def _group(record: dict[str, Any], at: str, context: Context, first_user: str | None) -> str | None:
    if context.group_by is not None or record.get("_ng_task_index") is None:
        return fields.group(record, at, context, first_user)
    context.report.note("group from _ng_task_index; whether its rollouts began alike, the file does not say")
    agent = record.get("agent_ref")
    name = agent.get("name") if isinstance(agent, dict) else None
    task = fields.label(record["_ng_task_index"], f"{at}: _ng_task_index")
    return f"{name}/{task}" if isinstance(name, str) and name else task


def _name(record: dict[str, Any], at: str, context: Context) -> str | None:
    if record.get("_ng_task_index") is None:
        return fields.identity(record, at, context)
    names = [record[name] for name in ("_ng_task_index", "_ng_rollout_index") if record.get(name) is not None]
    return context.unique("/".join(fields.label(name, f"{at}: rollout index") for name in names))


def _reference(record: dict[str, Any]) -> str | None:
    answer = record.get("expected_answer")
    if answer is None:
        return None
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


register(
    Format(
        "nemo-gym",
        "NeMo Gym rollouts: responses_create_params, response, reward, _ng_task_index",
        sniff,
        of_records(convert),
    )
)
