"""Traces of verifiers, version 1, as prime-rl and ``vf-eval`` write them: a rollout as a graph of messages.

    {"version": 1, "id": "…", "task": {"type", "key", "hash", "data"}, "agent": {"name"}, "nodes": [{"parent": null,
     "message": {…}, "sampled": false, "token_ids": […], "mask": […], "logprobs": […]}, …],
     "rewards": {"correct": {"score": 1, "weight": 1}}, "ok": true, "is_completed": true, "stop_condition": "…"}

Every sampled node is one step, and its parent is the sampled node it descends from: forks, compacted contexts and
subagents stay what they were. Token ids, log-probabilities (and a reference's) are kept where every sampled node has
them. Group = ``task.key`` or ``task.hash``; outcome = the weighted sum of ``rewards``, their scores its parts. A
trace that is not ``ok`` is failed and unscored. ``metrics`` stay in ``meta``.
"""

from __future__ import annotations

from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.graph import steps_of
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Trajectory
from apportion.errors import FormatError

TAKEN = ("version", "id", "nodes", "calls", "rewards", "reward", "task", "tools", "timing")


def sniff(head: Head) -> tuple[float, str]:
    """Records with nodes that hold messages."""
    for record in head.records:
        nodes = record.get("nodes") if isinstance(record, dict) else None
        if isinstance(nodes, list) and nodes and isinstance(nodes[0], dict) and "message" in nodes[0]:
            return 0.95, "records with 'nodes' of a 'message' each"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One trace."""
    if not isinstance(record, dict) or not isinstance(record.get("nodes"), list):
        raise FormatError(f"{at}: no 'nodes', so this is no trace of verifiers; remove it")
    broke = record.get("ok") is False
    calls = record.get("calls")
    last = calls[-1] if isinstance(calls, list) and calls and isinstance(calls[-1], dict) else {}
    stop = record.get("stop_condition")
    cut = (
        fields.flag(record, fields.TRUNCATED, at)
        or last.get("finish_reason") in fields.STOPPED_BY_LIMIT
        or (isinstance(stop, str) and (stop.startswith("max_") or "length" in stop or "timeout" in stop))
    )
    agent = record.get("agent")
    name = agent.get("name") if isinstance(agent, dict) else None
    graph = steps_of(record["nodes"], at, context, agent=name if isinstance(name, str) else None)
    steps = graph.ended(truncated=cut and not broke, failed=broke, terminated=not cut and not broke)
    outcome, parts = _reward(record, broke, at, context)
    meta = fields.rest(record, TAKEN, at, context)
    task = record.get("task")
    data = task.get("data") if isinstance(task, dict) else None
    if isinstance(task, dict):
        meta["task"] = fields.kept({k: v for k, v in task.items() if k != "data"}, f"{at}: task", context)
    answer = data.get("answer") if isinstance(data, dict) else None
    identity = record.get("id")
    return Trajectory(
        steps,
        group=_group(record, task, at, context, graph.first_user),
        id=None if identity is None else context.unique(fields.label(identity, f"{at}: id")),
        outcome=outcome,
        outcomes=parts,
        final_observation=graph.final_observation,
        reference=answer if isinstance(answer, str) and answer else None,
        meta=meta,
    )


def _group(record: dict[str, Any], task: Any, at: str, context: Context, first_user: str | None) -> str | None:
    if context.group_by is None and isinstance(task, dict):
        for name in ("key", "hash"):
            if task.get(name) is not None:
                context.report.note(f"group from task.{name}")
                return fields.label(task[name], f"{at}: task.{name}")
    return fields.group(record, at, context, first_user)


def _reward(record: dict[str, Any], broke: bool, at: str, context: Context) -> tuple[float | None, dict[str, float]]:
    """The weighted sum of the named rewards, and their scores; None and none where it broke or was not scored."""
    if broke:
        context.report.note("traces that are not ok: failed and unscored")
        return None, {}
    named = record.get("rewards")
    if not named or context.outcome is not None:
        return fields.outcome(record, at, context), {}
    if not isinstance(named, dict):
        raise FormatError(f"{at}: rewards is {fields.kind(named)}; give an object of score and weight by name")
    total, scores = 0.0, {}
    for name, reward in named.items():
        if reward is None:
            context.report.note("rewards that were not scored: the outcome is unknown")
            return None, {}
        told = reward if isinstance(reward, dict) else {"score": reward}
        scores[name] = fields.number(told.get("score"), f"{at}: rewards.{name[:40]}.score")
        weight = told.get("weight", 1.0)
        total += scores[name] * fields.number(weight, f"{at}: rewards.{name[:40]}.weight")
    return total, fields.parts(scores, context)


register(
    Format(
        "verifiers-v1",
        "verifiers traces, version 1: a graph of messages with rewards, tokens where they were logged",
        sniff,
        of_records(convert),
    )
)
