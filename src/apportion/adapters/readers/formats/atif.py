"""ATIF, the agent trajectory interchange format of Harbor, versions 1.0 to 1.7 (``"schema_version": "ATIF-v1.x"``).

    {"schema_version": "ATIF-v1.4", "session_id": "…", "agent": {"name", "version", "model_name"},
     "steps": [{"step_id", "source": "system|user|agent", "message", "reasoning_content", "tool_calls", "observation",
                "metrics": {"prompt_token_ids", "completion_token_ids", "logprobs"}, "is_copied_context"}, …]}

A step of ``source: agent`` is one turn; ``observation`` is what came back. Copied context (a continued or compacted
run) is context, not sampled again. Ids and log-probabilities are kept where every turn has them. Subagents' own
files and continuations are named in the trajectory; no file that it names is opened, give them beside it.

The format has no reward. Harbor writes one into ``result.json`` of the trial, beside the trajectory or one folder
up: it is read from there (``verifier_result.rewards``), with the name of the task, which is the group, and of the
trial.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation
from apportion.adapters.readers.json_stream import Item, stream_json
from apportion.adapters.readers.records import all_of, stream_values
from apportion.adapters.readers.registry import Context, Format, Head, Path, Trajectories, register
from apportion.adapters.readers.tokens import of_messages, with_ids
from apportion.data import Trajectory
from apportion.errors import FormatError

TAKEN = ("schema_version", "session_id", "trajectory_id", "steps", "agent")
BESIDE = "result.json"
LARGEST = 1 << 24
"""Bytes of a result.json beside a trajectory; a larger one is not Harbor's."""


def sniff(head: Head) -> tuple[float, str]:
    """A schema version of ATIF."""
    for record in head.records:
        if isinstance(record, dict) and str(record.get("schema_version", "")).startswith("ATIF-v"):
            return 1.0, f"a schema version {str(record['schema_version'])[:20]!r}"
    return 0.0, ""


def read(path: Path, context: Context) -> Trajectories:
    """One rollout per trajectory, with the trial's result where it lies beside."""
    trial = _trial(FilePath(os.fspath(path)))
    for item in stream_values(path):
        if isinstance(item, FormatError):
            yield item
        else:
            yield from all_of(partial(_convert, trial), item.value, item.at, context)


def _convert(trial: dict[str, Any], record: Any, at: str, context: Context) -> Trajectory:
    if not isinstance(record, dict) or not isinstance(record.get("steps"), list):
        raise FormatError(f"{at}: no 'steps', so this is no trajectory of ATIF; remove it")
    agent = record.get("agent")
    name = agent.get("name") if isinstance(agent, dict) else None
    name = name if isinstance(name, str) and name else None
    messages = [m for k, step in enumerate(record["steps"]) for m in _messages(step, f"{at}, step {k}", name, context)]
    chat = conversation(messages, at, context)
    own = [message for message in messages if message.get("weight") != 0]
    verdict = trial.get("verifier_result")
    rewards = verdict.get("rewards") if isinstance(verdict, dict) else None
    told = {**record, **{key: trial[key] for key in ("task_name", "trial_name") if key in trial}}
    outcome, parts = _reward(rewards, told, at, context)
    group = trial.get("task_name") if context.group_by is None else None
    if isinstance(group, str):
        context.report.note(f"group from task_name in {BESIDE}")
    else:
        group = fields.group(told, at, context, chat.first_user)
    named = (trial.get("trial_name"), record.get("trajectory_id"), record.get("session_id"))
    identity = next((one for one in named if isinstance(one, str) and one), None)
    meta = fields.rest(record, TAKEN, at, context)
    if isinstance(agent, dict):
        meta["agent"] = fields.kept(agent, f"{at}: agent", context)
    context.report.note("timestamps, usage and extra of steps: left out")
    if record.get("continued_trajectory_ref"):
        context.report.note("trajectories that go on in another file: not followed")
    return Trajectory(
        with_ids(chat.steps, of_messages(own, context), context),
        group=group,
        id=None if identity is None else context.unique(identity),
        outcome=outcome,
        outcomes=parts,
        final_observation=chat.final_observation,
        meta=meta,
    )


def _messages(step: Any, at: str, agent: str | None, context: Context) -> list[dict[str, Any]]:
    """What a step said, and what came back."""
    if not isinstance(step, dict):
        raise FormatError(f"{at} is {fields.kind(step)}; give an object with source and message")
    source = step.get("source")
    if source not in ("agent", "user", "system"):
        raise FormatError(f"{at}: source is {str(source)[:40]!r}; give agent, user or system")
    message: dict[str, Any] = {"role": "assistant" if source == "agent" else source, "content": step.get("message")}
    if source == "agent":
        message |= _sampled(step, agent, context)
    out = [message]
    seen = step.get("observation")
    results = seen.get("results") if isinstance(seen, dict) else None
    for result in results if isinstance(results, list) else []:
        if not isinstance(result, dict):
            raise FormatError(f"{at}: an observation holds {fields.kind(result)}; give objects with content")
        context.report.note(
            "subagents: their trajectories are in other files", bool(result.get("subagent_trajectory_ref"))
        )
        out.append({"role": "tool", "tool_call_id": result.get("source_call_id"), "content": result.get("content")})
    return out


def _sampled(step: dict[str, Any], agent: str | None, context: Context) -> dict[str, Any]:
    calls = step.get("tool_calls")
    told = [_call(call) for call in calls] if isinstance(calls, list) else None
    metrics = step.get("metrics")
    metrics = metrics if isinstance(metrics, dict) else {}
    if step.get("is_copied_context") is True:
        return {"name": agent, "tool_calls": told, "weight": 0}
    return {
        "name": agent,
        "tool_calls": told,
        "reasoning_content": step.get("reasoning_content"),
        "prompt_token_ids": metrics.get("prompt_token_ids"),
        "generation_token_ids": metrics.get("completion_token_ids"),
        "generation_log_probs": metrics.get("logprobs"),
    }


def _call(call: Any) -> Any:
    if not isinstance(call, dict):
        return call
    function = {"name": call.get("function_name"), "arguments": call.get("arguments")}
    return {"id": call.get("tool_call_id"), "function": function}


def _reward(rewards: Any, record: dict[str, Any], at: str, context: Context) -> tuple[float | None, dict[str, float]]:
    """The trial's reward, or its only number; and all of them as parts."""
    if not isinstance(rewards, dict) or not rewards:
        return fields.outcome(record, at, context), {}
    if context.outcome is not None:
        return fields.outcome(record, at, context), fields.parts(rewards, context)
    told = rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)
    context.report.note(f"reward from verifier_result in {BESIDE}", told is not None)
    context.report.note("reward missing: not scored, which is not 0", told is None)
    parts = fields.parts(rewards, context) if len(rewards) > 1 else {}
    return None if told is None else fields.number(told, f"{at}: verifier_result.rewards"), parts


def _trial(path: FilePath) -> dict[str, Any]:
    """Harbor's result of the trial that the trajectory is of; empty where there is none that can be read."""
    for folder in (path.parent, path.parent.parent):
        file = folder / BESIDE
        if file.is_file() and not file.is_symlink() and file != path and file.stat().st_size <= LARGEST:
            try:
                first = next((item for item in stream_json(file) if isinstance(item, Item)), None)
            except FormatError:
                return {}
            told = first.value if first is not None else None
            if isinstance(told, dict) and "verifier_result" in told:
                return told
    return {}


register(Format("atif", "ATIF trajectories of Harbor, versions 1.0 to 1.7", sniff, read))
