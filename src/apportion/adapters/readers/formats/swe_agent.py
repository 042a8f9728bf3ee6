"""SWE-agent's ``<instance>.traj``: what the model answered, what was run, what came back.

    {"environment": "…", "trajectory": [{"response", "thought", "action", "observation", "state", "query"}, …],
     "history": [messages], "info": {"exit_status": "submitted", …}, "replay_config": {"problem_statement": {"id": …}}}

One entry of ``trajectory`` is one step. Its action is the model's response, and behind it the command where the
response does not hold it (tool calling, where the call itself is in ``history``). The first observation is what
``history`` or the first ``query`` show before the first answer; later ones are what the environment returned,
without the template around it. ``state`` is the environment's after the action, so the state *before* a step, by
which steps are compared, stays what was observed. A run that tried several times (``attempts``) is one rollout per
attempt.

Group = the instance: the id of the problem statement, or the name of the file. There is no reward: the evaluation of
the patch is another program's, so the outcome is None, unless somebody wrote one of the usual names into ``info``.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial
from pathlib import Path as FilePath
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation, state_after
from apportion.adapters.readers.json_stream import stream_json
from apportion.adapters.readers.records import all_of
from apportion.adapters.readers.registry import Context, Format, Head, Path, Trajectories, register
from apportion.data import Step, Trajectory
from apportion.errors import FormatError

CUT_OFF = ("exit_cost", "exit_context", "exit_total_execution_time", "exit_format")
BROKEN = ("exit_api", "exit_environment_error", "exit_error", "exit_command_timeout")


def sniff(head: Head) -> tuple[float, str]:
    """Records with trajectory of action and observation, or attempts of such."""
    for record in head.records:
        if isinstance(record, dict):
            listed = record.get("trajectory")
            if isinstance(listed, list) and "history" in record and "info" in record:
                return 0.95, "records with 'trajectory', 'history' and 'info'"
            if isinstance(listed, list) and listed and _is_entry(listed[0]):
                return 0.8, "records with a 'trajectory' of 'action' and 'observation'"
            tries = record.get("attempts")
            if isinstance(tries, list) and tries and isinstance(tries[0], dict) and "trajectory" in tries[0]:
                return 0.9, "records with 'attempts'"
    return 0.0, ""


def read(path: Path, context: Context) -> Trajectories:
    """One rollout per record, or per attempt; the name of the file names those that do not name themselves."""
    stem = FilePath(os.fspath(path)).name.split(".traj")[0]
    for item in stream_json(path):
        if isinstance(item, FormatError):
            yield item
        else:
            yield from all_of(partial(_attempts, stem), item.value, item.at, context)


def _attempts(stem: str, record: Any, at: str, context: Context) -> list[Trajectory]:
    tries = record.get("attempts") if isinstance(record, dict) else None
    if not isinstance(tries, list) or not tries:
        return [_convert(record, stem, at, context)]
    shared = {name: value for name, value in record.items() if name not in ("attempts", "trajectory", "history")}
    out = []
    for k, one in enumerate(tries):
        where = f"{at}, attempt {k}"
        if not isinstance(one, dict):
            raise FormatError(f"{where} is {fields.kind(one)}; give an object with a trajectory")
        out.append(_convert({**shared, **one}, stem, where, context))
    return out


def _convert(record: Any, stem: str, at: str, context: Context) -> Trajectory:
    entries = record.get("trajectory") if isinstance(record, dict) else None
    if not isinstance(entries, list):
        raise FormatError(f"{at}: no 'trajectory', so this is no run of SWE-agent; remove it")
    info = record.get("info")
    info = info if isinstance(info, dict) else {}
    config = _config(record)
    seen, first_user = _first(record, entries, at, context)
    steps: list[Step] = []
    for k, entry in enumerate(entries):
        steps.append(_step(entry, steps, seen, f"{at}, entry {k}", context))
        seen = entry.get("observation") or None
    status = info.get("exit_status")
    status = status if isinstance(status, str) else ""
    if not steps:
        context.report.note("runs without an entry: one empty action")
        steps, seen = [Step(observation=seen, action="")], None
    broke = any(word in status for word in BROKEN)
    cut = any(word in status for word in CUT_OFF) and not broke
    ended = bool(status) and not cut and not broke
    steps[-1] = replace(steps[-1], failed=broke, truncated=cut, terminated=ended)
    context.report.note("runs that infrastructure ended (exit_status): failed", broke)
    merged = {**info, **record}
    named = next((name for name in (_instance(config), record.get("instance_id")) if isinstance(name, str)), stem)
    group = named if context.group_by is None else fields.group(merged, at, context, first_user)
    context.report.note("group from the instance", context.group_by is None)
    meta = fields.rest(record, ("trajectory", "history", "replay_config", "info"), at, context)
    meta["info"] = fields.kept(info, f"{at}: info", context)
    context.report.note("replay_config and history beyond the first observation: left out")
    return Trajectory(
        steps,
        group=group,
        id=context.unique(named),
        outcome=fields.outcome(merged, at, context),
        final_observation=seen,
        meta=meta,
    )


def _step(entry: Any, before: list[Step], seen: str | None, at: str, context: Context) -> Step:
    if not isinstance(entry, dict):
        raise FormatError(f"{at} is {fields.kind(entry)}; give an object with action and observation")
    for name in ("response", "thought", "action", "observation"):
        if entry.get(name) is not None and not isinstance(entry[name], str):
            raise FormatError(f"{at}: {name} is {fields.kind(entry[name])}; give a text")
    said, command = entry.get("response") or entry.get("thought") or "", entry.get("action") or ""
    if command.strip() and command.strip() not in said:
        context.report.note("commands that the response does not hold: put behind it, the call was sampled otherwise")
        said = f"{said}\n{command}" if said else command
    extra = {name: entry[name] for name in ("action", "state", "execution_time", "extra_info") if entry.get(name)}
    return Step(
        observation=seen,
        action=said,
        state=seen or (state_after(before[-1]) if before else ""),
        turn=len(before),
        extra=fields.kept(extra, at, context),
    )


def _first(record: dict[str, Any], entries: list[Any], at: str, context: Context) -> tuple[str | None, str | None]:
    """What was shown before the first answer, and the task in it."""
    history = record.get("history")
    entry = entries[0] if entries and isinstance(entries[0], dict) else {}
    shown = history if isinstance(history, list) and history else entry.get("query")
    if not isinstance(shown, list):
        context.report.note("no history and no query: what came before the first step is unknown")
        return None, None
    before = []
    for message in shown:
        if isinstance(message, dict) and message.get("role") == "assistant" and not message.get("is_demo"):
            break
        before.append({"role": message["role"], "content": message.get("content")} if _is_message(message) else message)
    chat = conversation([], f"{at}: history", context.silent(), before=before)
    return chat.steps[0].observation, chat.first_user


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and "role" in value


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and "action" in value and "observation" in value


def _config(record: dict[str, Any]) -> dict[str, Any]:
    """The configuration, which some versions write as a text of JSON."""
    config = record.get("replay_config")
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except (ValueError, RecursionError):
            return {}
    return config if isinstance(config, dict) else {}


def _instance(config: dict[str, Any]) -> Any:
    problem = config.get("problem_statement")
    return problem.get("id") if isinstance(problem, dict) else None


register(
    Format("swe-agent", "SWE-agent .traj: trajectory of response, action, observation; history; info", sniff, read)
)
