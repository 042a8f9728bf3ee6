"""rLLM's episodes: trajectories of one or several agents, step by step, with tokens where training wrote them.

    {"id": "task:0", "task": …, "is_correct": true, "termination_reason": "env_done", "metrics": {…}, "trajectories": [
      {"uid": "…", "name": "solver", "task": …, "reward": 1.0, "steps": [{"prompt_ids", "response_ids", "logprobs",
       "chat_completions": [messages], "observation", "thought", "action", "model_response", "reward", "done"}, …]}]}
    {"name": "…", "steps": […], "reward": 1.0}                                            one trajectory by itself

Each trajectory is one rollout, its ``name`` the agent of its steps. Group = the task of the episode (its id up to
the first colon) and that name, as rLLM forms groups. A step's action is ``model_response``, or the last message of
its chat; its observation is what its chat shows beyond the step before, or ``observation``. Step rewards count where
any of the episode is not 0, because 0 is rLLM's word for none; the outcome is ``reward``, or ``is_correct`` where
that is null. Without either the rollout is unscored. Chats alone, as rLLM writes them for fine-tuning, are read as
chat messages.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import Fold, is_message
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.adapters.readers.tokens import sampled, with_ids
from apportion.data import Step, Trajectory
from apportion.errors import FormatError

CUT_OFF = ("max_prompt_length_exceeded", "max_response_length_exceeded", "max_turns_exceeded", "timeout")
BROKEN = ("error", "env_error", "unknown_error")
STEP = ("model_response", "chat_completions", "response_ids")
DEFAULT = "default_traj_name"


def sniff(head: Head) -> tuple[float, str]:
    """Episodes with trajectories of steps, or such a trajectory."""
    for record in head.records:
        if isinstance(record, dict):
            inner = record.get("trajectories")
            inner = list(inner.values()) if isinstance(inner, dict) else inner
            if isinstance(inner, list) and inner and _is_trajectory(inner[0]):
                return 0.95, "records with 'trajectories' of 'steps'"
            if _is_trajectory(record):
                return 0.85, "records with 'steps' of 'model_response' or 'chat_completions'"
    return 0.0, ""


def _is_trajectory(value: Any) -> bool:
    steps = value.get("steps") if isinstance(value, dict) else None
    return isinstance(steps, list) and bool(steps) and isinstance(steps[0], dict) and any(n in steps[0] for n in STEP)


def split(value: Any, at: str, context: Context) -> Iterator[tuple[Any, str]]:
    """The trajectories of an episode, each with its episode."""
    if not isinstance(value, dict) or "trajectories" not in value:
        yield {"episode": {}, "trajectory": value}, at
        return
    listed = value["trajectories"]
    if isinstance(listed, dict):  # by name, as older versions write them
        listed = [{"name": name, **one} if isinstance(one, dict) else one for name, one in listed.items()]
    if not isinstance(listed, list):
        raise FormatError(f"{at}: trajectories is {fields.kind(listed)}; give a list, or an object by name")
    episode = {name: inner for name, inner in value.items() if name != "trajectories"}
    for k, one in enumerate(listed):
        yield {"episode": episode, "trajectory": one}, f"{at}, trajectory {k}"


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One trajectory of an episode."""
    episode, one = record["episode"], record["trajectory"]
    listed = one.get("steps") if isinstance(one, dict) else None
    if not isinstance(listed, list):
        raise FormatError(f"{at}: no 'steps', so this is no trajectory of rLLM; remove it")
    name = one.get("name")
    agent = name if isinstance(name, str) and name and name != DEFAULT else None
    steps, first_user = _steps(listed, agent, at, context)
    reason = episode.get("termination_reason")
    reason = reason.lower() if isinstance(reason, str) else ""
    broke = reason in BROKEN
    cut = reason in CUT_OFF and not broke
    steps[-1] = replace(steps[-1], failed=broke, truncated=cut, terminated=steps[-1].terminated and not cut)
    whole = {**episode, **{key: value for key, value in one.items() if key != "steps"}}
    outcome = None
    if broke:
        context.report.note("episodes that broke (termination_reason): failed and unscored")
    elif context.outcome is not None:
        outcome = fields.outcome(whole, at, context)
    elif one.get("reward") is not None:
        outcome = fields.number(one["reward"], f"{at}: reward")
    else:
        outcome = fields.outcome({"success": episode.get("is_correct")}, at, context)
        context.report.note("reward of the trajectory missing: is_correct of the episode", outcome is not None)
    told = sum(step.reward or 0.0 for step in steps)
    if outcome is not None and any(step.reward for step in steps) and not math.isclose(told, outcome, abs_tol=1e-9):
        context.report.note("step rewards that do not add up to the reward: the last step gets the rest")
        steps[-1] = replace(steps[-1], reward=None)
    meta = fields.rest(whole, ("id", "uid", "name", "reward", "steps"), at, context)
    return Trajectory(
        steps,
        group=_group(episode, whole, agent, at, context, first_user),
        id=_name(episode, one, agent, at, context),
        outcome=outcome,
        outcomes={} if broke else fields.parts(one.get("signals"), context),
        meta=meta,
    )


def _steps(listed: list[Any], agent: str | None, at: str, context: Context) -> tuple[list[Step], str | None]:
    fold = Fold(at, context)
    calls, rewards, done = [], [], False
    before: list[Any] = []
    for k, step in enumerate(listed):
        where = f"{at}, step {k}"
        if not isinstance(step, dict):
            raise FormatError(f"{where} is {fields.kind(step)}; give an object")
        chat = step.get("chat_completions")
        chat = chat if isinstance(chat, list) and chat and all(is_message(m) for m in chat) else []
        extends = chat[: len(before)] == before
        had = len(fold.steps)
        if chat and chat[-1]["role"] == "assistant":
            for message in (chat[len(before) : -1]) if extends else chat[:-1]:
                fold.heard(message, where)
            fold.said({**chat[-1], "name": agent}, where)
        else:
            _shown(fold, step, agent, where)
        if before and not extends:
            context.report.note("chats that do not extend the step before: told whole, fresh")
            fold.steps[had] = replace(fold.steps[had], fresh=True)
        before = chat
        calls.append(sampled(step.get("prompt_ids"), step.get("response_ids"), step.get("logprobs"), context))
        reward = step.get("reward")
        rewards.append(None if reward is None else fields.number(reward, f"{where}: reward"))
        done = step.get("done") is True
        context.report.note("advantages in the file: left out", step.get("advantage") is not None)
    told = fold.close(truncated=False, terminated=done)
    steps = list(with_ids(told.steps, calls, context))
    if any(rewards):  # the reward of a turn arrives with its last step
        last = {step.turn: k for k, step in enumerate(steps)}
        for turn, k in last.items():
            reward = rewards[turn] if turn is not None and turn < len(rewards) else None
            steps[k] = replace(steps[k], reward=reward)
    return steps, told.first_user


def _shown(fold: Fold, step: dict[str, Any], agent: str | None, at: str) -> None:
    """A step without a chat: observation and answer as they stand."""
    seen = step.get("observation")
    if seen is not None:
        text = seen if isinstance(seen, str) else json.dumps(seen, ensure_ascii=False)
        fold.heard({"role": "user", "content": text}, at)
    action = step.get("model_response") or step.get("action") or ""
    text = action if isinstance(action, str) else json.dumps(action, ensure_ascii=False)
    fold.said({"role": "assistant", "content": text, "reasoning_content": step.get("thought"), "name": agent}, at)


def _group(
    episode: dict[str, Any], whole: dict[str, Any], agent: str | None, at: str, context: Context, first: str | None
) -> str | None:
    identity = episode.get("task_id") or episode.get("id")
    if context.group_by is not None or not isinstance(identity, str):
        return fields.group(whole, at, context, first)
    context.report.note("group from the task in the episode's id, and the trajectory's name")
    task = identity.split(":")[0]
    return f"{task}:{agent}" if agent else task


def _name(episode: dict[str, Any], one: dict[str, Any], agent: str | None, at: str, context: Context) -> str | None:
    identity = episode.get("id", one.get("uid", one.get("id")))
    if identity is None:
        return None
    name = fields.label(identity, f"{at}: id")
    return context.unique(f"{name}:{agent}" if agent else name)


register(
    Format(
        "rllm",
        "rLLM episodes: trajectories of steps with chats, rewards, and tokens where they were logged",
        sniff,
        of_records(convert, split=split),
    )
)
