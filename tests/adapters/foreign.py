"""Small files in other people's formats, as they write them; seeded, so equal arguments give equal files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def call(name: str, arguments: Any, id: str = "c1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(content: str | None, *calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {}), **more}


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def tool(content: str, name: str | None = None, id: str = "c1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content, **({"name": name} if name else {})}


REWARDS = {21: (0, 1, 1, 1), 39: (1, 0, 0, 0), 49: (1, 1, 1, 1)}


def tau_records(seed: int = 0) -> list[dict[str, Any]]:
    """Three tasks of four trials; look-ups of one task answer alike in all its trials, one task has no spread."""
    rng = np.random.default_rng(seed)
    out = []
    for trial in range(4):
        for task, rewards in REWARDS.items():
            chat = [system("# Policy\n\nBe kind."), user(f"Hi, task {task}, {'please ' * int(rng.integers(3))}help")]
            for k in range(int(rng.integers(1, 4))):
                chat.append(said(None, call("look_up", json.dumps({"id": task * 10 + k}), id=f"{trial}-{k}")))
                chat.append(tool(json.dumps({"row": task * 10 + k}), "look_up", id=f"{trial}-{k}"))
                chat.append(said(f"I found {k} in trial {trial}."))
                chat.append(user("Go on."))
            chat += [said(None, call("finish", "{}")), tool("done", "finish")]
            out.append(
                {
                    "task_id": task,
                    "reward": float(rewards[trial]),
                    "info": {
                        "task": {"user_id": "ada", "actions": [{"name": "finish", "kwargs": {}}]},
                        "source": "user",
                        "user_cost": 0.002,
                    },
                    "traj": chat,
                    "trial": trial,
                }
            )
    return out


def wordle_records() -> list[dict[str, Any]]:
    """Two words of three rollouts, in passes over the words."""
    prompt = [system("Play."), user("Guess a word.")]
    out = []
    for rollout in range(3):
        for word in range(2):
            turns: list[dict[str, Any]] = []
            for guess in range(2 + rollout):
                turns += [said(f"<guess>[w{word}{guess}]</guess>"), user(f"X X Y {guess}")]
            solved = float((rollout + word) % 2)
            out.append(
                {
                    "example_id": word,
                    "prompt": prompt,
                    "completion": turns,
                    "task": "default",
                    "reward": solved + 0.2,
                    "generation_ms": 12.5,
                    "answer": f"word{word}",
                    "check_answer_reward_func": solved,
                    "format_reward_func": 1.0,
                }
            )
    return out


def chat_records() -> list[dict[str, Any]]:
    return [
        {
            "messages": [user("2+2?"), said(f"It is {n}."), user("Sure?"), said("Yes.")],
            "reward": float(n == 4),
            "task_id": "sum",
            "model": "m",
        }
        for n in (3, 4, 5)
    ]


def lines(path: Path, records: list[Any], end: str = "\n") -> Path:
    path.write_bytes("".join(json.dumps(record) + end for record in records).encode())
    return path


def listed(path: Path, records: list[Any], indent: int | None = None) -> Path:
    path.write_text(json.dumps(records, indent=indent), encoding="utf-8")
    return path
