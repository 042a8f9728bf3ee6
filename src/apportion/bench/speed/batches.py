"""The batches: shapes of real training runs with random numbers in them, seeded.

math      128 prompts × 8 rollouts of 1k to 8k tokens, all sampled
agentic   16 tasks × 8 rollouts of 5 to 50 steps, three quarters of the tokens are observations
long      64 rollouts of 60k to 100k tokens
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from apportion.numerics import Array, BoolArray, FloatArray, IntArray

KINDS = ("math", "agentic", "long")


@dataclass(frozen=True)
class Tokens:
    """Packed float32 columns of rollouts end to end. X positions, N rollouts."""

    kind: str
    reward_X: Array
    value_X: Array
    sampled_X: BoolArray
    length_N: IntArray

    @property
    def seg_of_X(self) -> IntArray:
        """Rollout of each position."""
        return np.repeat(np.arange(len(self.length_N)), self.length_N)

    def first_half(self) -> Tokens:
        """The first half of the rollouts."""
        keep = len(self.length_N) // 2
        n = int(self.length_N[:keep].sum())
        return Tokens(self.kind, self.reward_X[:n], self.value_X[:n], self.sampled_X[:n], self.length_N[:keep])

    def padded(self, x_X: Array) -> Array:
        """(N, longest), zeros after each rollout."""
        real = np.arange(int(self.length_N.max())) < self.length_N[:, None]
        out = np.zeros(real.shape, x_X.dtype)
        out[real] = x_X
        return out

    def packed(self, x_NL: Array) -> Array:
        """The inverse of `padded`."""
        return x_NL[np.arange(x_NL.shape[1]) < self.length_N[:, None]]


def tokens(kind: str, *, quick: bool = False, seed: int = 0) -> Tokens:
    """One of KINDS; an eighth of the rollouts when quick."""
    rng = np.random.default_rng(seed)
    share = 8 if quick else 1
    if kind == "math":
        length_N = rng.integers(1000, 8193, size=1024 // share)
        sampled_X = np.ones(int(length_N.sum()), dtype=bool)
    elif kind == "long":
        length_N = rng.integers(60_000, 100_001, size=64 // share)
        sampled_X = np.ones(int(length_N.sum()), dtype=bool)
    elif kind == "agentic":
        rows = [_turns(rng) for _ in range(128 // share)]
        length_N = np.array([len(row) for row in rows])
        sampled_X = np.concatenate(rows)
    else:
        raise ValueError(f"no batch named {kind!r}; there are {', '.join(KINDS)}")
    n = len(sampled_X)
    reward_X = np.where(sampled_X, rng.standard_normal(n, dtype=np.float32) * np.float32(0.01), np.float32(0))
    reward_X[np.cumsum(length_N) - 1] += rng.random(len(length_N)) < 0.4
    value_X = rng.standard_normal(n, dtype=np.float32) * np.float32(0.3)
    return Tokens(kind, reward_X, value_X, sampled_X, length_N)


def _turns(rng: np.random.Generator) -> BoolArray:
    """Action, observation, …, action."""
    steps = int(rng.integers(5, 51))
    size = np.empty(2 * steps + 1, dtype=np.int64)
    size[::2] = rng.integers(20, 201, size=steps + 1)
    size[1::2] = rng.integers(75, 501, size=steps)
    return np.repeat(np.arange(len(size)) % 2 == 0, size)


@dataclass(frozen=True)
class StepRows:
    """Steps of an agent, one row each, as hosts hold them: labels are text. R rows."""

    task_R: Array
    traj_R: Array
    state_R: Array
    reward_R: Array
    steps: int

    def first_half(self) -> StepRows:
        """The first half of the rows."""
        n = len(self.task_R) // 2
        return StepRows(self.task_R[:n], self.traj_R[:n], self.state_R[:n], self.reward_R[:n], self.steps)


def step_rows(tasks: int, rollouts: int, steps: int, *, states: int = 60, seed: int = 0) -> StepRows:
    """Observations of 300 to 2,000 characters that recur with a heavy tail; a third of them carry a small edit."""
    rng = np.random.default_rng(seed)
    text = prose(rng)
    task, traj, state = [], [], []
    for t in range(tasks):
        head = text(int(rng.integers(150, 400)))
        pool = [f"{head} | {text(int(rng.integers(150, 1600)))}" for _ in range(states)]
        for k in range(rollouts):
            for s in range(steps):
                seen = pool[0 if s == 0 else min(int(rng.pareto(1.1) * 4), states - 1)]
                edit = f" step {s} of {steps}, rollout {k}" if rng.random() < 0.3 else ""
                task.append(f"task-{t:04d}-0123456789ab")
                traj.append(f"traj-{t:04d}-{k:03d}-0123456789ab")
                state.append(seen + edit)
    reward = np.zeros(len(task))
    reward[steps - 1 :: steps] = rng.random(tasks * rollouts) < 0.4
    return StepRows(objects(task), objects(traj), objects(state), reward, steps)


def prose(
    rng: np.random.Generator, letters: str = "etaoinshrdlu", share: FloatArray | None = None
) -> Callable[[int], str]:
    """A writer of texts of so many characters, whose words have the frequencies of language; ``share``: of letters."""
    words = ["".join(rng.choice(list(letters), size=int(k), p=share)) for k in rng.integers(2, 10, size=1500)]

    def text(length: int) -> str:
        picked = np.minimum(rng.pareto(0.9, size=length // 2) * 12, len(words) - 1).astype(int)
        return " ".join(words[i] for i in picked)[:length]

    return text


def objects(items: list[str]) -> Array:
    """Texts as hosts hold them, one object each."""
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def jsonl_of_steps(path: Path, size: int, *, seed: int = 0) -> int:
    """A file of ``size`` bytes or a little more: agents of 10 to 50 steps, text only. Returns the number of steps."""
    rng = np.random.default_rng(seed)
    text = prose(rng)
    seen = [text(int(rng.integers(300, 2000))) for _ in range(400)]
    said = [text(int(rng.integers(50, 300))) for _ in range(400)]
    steps = 0
    with open(path, "w", encoding="utf-8") as file:
        n = 0
        while file.tell() < size:
            rows = [
                {
                    "observation": f'{seen[int(rng.integers(400))]}\n"item {s}"',
                    "action": said[int(rng.integers(400))],
                    "reward": 0.0,
                }
                for s in range(int(rng.integers(10, 51)))
            ]
            steps += len(rows)
            _write_rollout(file, n, rng, rows)
            n += 1
    return steps


def jsonl_of_tokens(path: Path, size: int, *, seed: int = 0) -> int:
    """The same for responses of 1k to 8k token ids with log-probabilities. Returns the number of tokens."""
    rng = np.random.default_rng(seed)
    tokens = n = 0
    with open(path, "w", encoding="utf-8") as file:
        while file.tell() < size:
            length = int(rng.integers(1000, 8193))
            step = {
                "prompt_ids": rng.integers(0, 151_000, size=200).tolist(),
                "ids": rng.integers(0, 151_000, size=length).tolist(),
                "logp": (-np.round(rng.exponential(0.4, size=length), 6)).tolist(),
            }
            tokens += 200 + length
            _write_rollout(file, n, rng, [step])
            n += 1
    return tokens


def _write_rollout(file: TextIO, n: int, rng: np.random.Generator, steps: list[dict[str, object]]) -> None:
    record = {"group": f"task-{n // 8}", "id": f"rollout-{n}", "outcome": float(rng.random() < 0.4), "steps": steps}
    file.write(json.dumps(record) + "\n")
