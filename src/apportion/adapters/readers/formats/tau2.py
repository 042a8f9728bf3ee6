"""Results of τ²-bench: an agent and a customer who both may use tools.

    {"info": {…}, "tasks": [{"id": "7", …}], "simulations": [{"id", "task_id", "trial", "messages", "reward_info",
     "termination_reason"}, …]}                                       one run
    {"id": …, "task_id": …, "messages": […], "reward_info": {…}}      one simulation, as the folder form writes them

Group = ``task_id`` (with the domain where the run names it), name = task/trial. The agent's messages are sampled,
its fixed greeting aside; the customer's, and the customer's own tool calls, are observed. The task's evaluation
criteria become the reference, which no prompt may see. A run that infrastructure ended is failed and unscored; one
that a limit ended is truncated. ``reward_breakdown`` gives the named parts of the outcome. Simulations by voice have
no messages but ticks: refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Trajectory
from apportion.errors import FormatError

CUT_OFF = ("max_steps", "timeout", "context_window_exceeded")
BROKEN = ("infrastructure_error", "unexpected_error", "user_error")
GREETING = "Hi! How can I help you today?"
TAKEN = ("messages", "ticks", "reward_info", "task_id", "_task", "_domain")


def sniff(head: Head) -> tuple[float, str]:
    """An object with tasks and simulations, or a simulation."""
    for record in head.records:
        if isinstance(record, dict):
            if isinstance(record.get("simulations"), list) and "tasks" in record:
                return 0.95, "an object with 'tasks' and 'simulations'"
            if _is_simulation(record):
                return 0.95, "records with 'task_id', 'messages', 'start_time' and 'termination_reason'"
    return 0.0, ""


def _is_simulation(record: dict[str, Any]) -> bool:
    told = set(record)
    return {"task_id", "termination_reason", "start_time"} <= told and bool(told & {"messages", "ticks"})


def split(value: Any, at: str, context: Context) -> Iterator[tuple[Any, str]]:
    """The simulations of a run, each with its task and the domain."""
    if not isinstance(value, dict) or "simulations" not in value:
        yield value, at
        return
    if not isinstance(value["simulations"], list):
        raise FormatError(f"{at}: simulations is {fields.kind(value['simulations'])}; give a list")
    if not value["simulations"] and value.get("simulation_index"):
        raise FormatError(f"{at}: an index; the simulations lie in the folder beside it, so read that folder")
    listed = value.get("tasks")
    tasks = {str(task.get("id")): task for task in listed if isinstance(task, dict)} if isinstance(listed, list) else {}
    for k, one in enumerate(value["simulations"]):
        if isinstance(one, dict):
            one = {**one, "_task": tasks.get(str(one.get("task_id"))), "_domain": _domain(value)}
        yield one, f"{at}, simulation {k}"


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One simulation."""
    if not isinstance(record, dict) or not isinstance(record.get("messages"), list):
        voice = isinstance(record, dict) and isinstance(record.get("ticks"), list)
        what = "a simulation by voice, which has ticks and no messages" if voice else "no 'messages'"
        raise FormatError(f"{at}: {what}; leave it out")
    messages = [m for k, m in enumerate(record["messages"]) for m in _messages(m, f"{at}, message {k}")]
    if messages and messages[0].get("content") == GREETING and messages[0]["role"] == "assistant":
        context.report.note("the agent's greeting, a fixed text: context, not sampled")
        messages[0]["weight"] = 0
    reason = record.get("termination_reason")
    broke = reason in BROKEN
    chat = conversation(
        messages,
        at,
        context,
        truncated=reason in CUT_OFF,
        terminated=isinstance(reason, str) and not broke and reason not in CUT_OFF,
    )
    steps = chat.steps
    told = record.get("reward_info")
    told = told if isinstance(told, dict) else {}
    outcome = None
    if broke:
        context.report.note("runs that infrastructure or the simulated customer broke: failed and unscored")
        steps = (*steps[:-1], replace(steps[-1], failed=True))
    else:
        outcome = fields.outcome(told, at, context, whole=record)
    group, name = _names(record, at, context, chat.first_user)
    task = record.get("_task")
    criteria = task.get("evaluation_criteria") if isinstance(task, dict) else None
    meta = fields.rest(record, TAKEN, at, context)
    meta["checks"] = fields.kept(
        {k: v for k, v in told.items() if k != "reward" or context.outcome is not None}, f"{at}: reward_info", context
    )
    return Trajectory(
        steps,
        group=group,
        id=context.unique(name) if name else None,
        outcome=outcome,
        outcomes={} if broke else fields.parts(told.get("reward_breakdown"), context),
        final_observation=chat.final_observation,
        reference=json.dumps(criteria, ensure_ascii=False) if criteria else None,
        meta=meta,
    )


def _names(record: dict[str, Any], at: str, context: Context, first_user: str | None) -> tuple[str | None, str | None]:
    """Group and name."""
    task = None if record.get("task_id") is None else fields.label(record["task_id"], f"{at}: task_id")
    name = task
    if task is not None and record.get("trial") is not None:
        name = f"{task}/{fields.label(record['trial'], f'{at}: trial')}"
    if context.group_by is not None or task is None:
        return fields.group(record, at, context, first_user), name
    context.report.note("group from task_id")
    domain = record.get("_domain")
    return (f"{domain}/{task}" if isinstance(domain, str) else task), name


def _messages(message: Any, at: str) -> Iterator[Any]:
    """A message as the chat reader knows them: tools by their call, what the customer called as what was seen."""
    if not isinstance(message, dict):
        raise FormatError(f"{at} is {fields.kind(message)}; give an object with role and content")
    if isinstance(message.get("tool_messages"), list):
        for inner in message["tool_messages"]:
            yield from _messages(inner, at)
        return
    if not isinstance(message.get("role"), str):
        raise FormatError(f"{at}: role is {fields.kind(message.get('role'))}; give assistant, user, tool or system")
    kept = {name: message[name] for name in ("role", "content", "tool_calls") if message.get(name) is not None}
    if message.get("role") == "tool":
        kept["tool_call_id"] = message.get("id")
        if message.get("requestor") == "user":
            kept["name"] = "of the user"
    if message.get("role") == "user" and kept.get("tool_calls"):
        calls = kept.pop("tool_calls")
        shown = [call.get("name") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        kept["content"] = "\n".join([*filter(None, [kept.get("content")]), f"(calls {', '.join(map(str, shown))})"])
    yield kept


def _domain(value: dict[str, Any]) -> Any:
    info = value.get("info")
    environment = info.get("environment_info") if isinstance(info, dict) else None
    return environment.get("domain_name") if isinstance(environment, dict) else None


register(
    Format(
        "tau2-bench",
        "τ²-bench results: tasks and simulations with messages, reward_info, termination_reason",
        sniff,
        of_records(convert, split=split),
    )
)
