"""What the adapters of TRL and verl cost for each token: a host's rows in, GRPO's numbers out, and the credit between.

Beside them the trainer's own way for one number per rollout, a line of torch; ours makes one for every token, of any
method, so what counts here is the time for a token, not the ratio.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.assign import assign
from apportion.bench.speed.compare import Comparison, Contender, Peer
from apportion.bench.speed.registry import Setting, case
from apportion.numerics import Array, BoolArray, FloatArray, IntArray
from apportion.units import by_step

PROMPTS, SIZE, PROMPT, STEP = 64, 8, 200, 50
"""Prompts, rollouts of each, tokens of a prompt, tokens of a step; every other step is an observation."""
STEEPEST = 2.4
OWN = "one line of torch"


@dataclass(frozen=True, slots=True)
class Rows:
    """A generation batch as arrays: (N, P) prompts, (N, L) completions with what is real and what the policy wrote."""

    prompt: IntArray
    ids: IntArray
    real: BoolArray
    policy: BoolArray
    reward: FloatArray

    @property
    def tokens(self) -> int:
        """Real completion tokens."""
        return int(self.real.sum())


@case("adapters")
def adapter_cases(setting: Setting) -> Iterator[Comparison]:
    """TRL's padded batch; verl's rows."""
    prompts = PROMPTS // (8 if setting.quick else 1)
    whole, half = _rows(prompts), _rows(prompts // 2)
    for name, through in (("TRL", _trl), ("verl", _verl)):
        if name == "TRL" and importlib.util.find_spec("torch") is None:  # its batches are tensors
            continue
        yield Comparison(
            kernel=f"adapter of {name}, rows to advantages",
            batch=f"{len(whole.ids)} rows of 500 to 2,500 tokens",
            items=whole.tokens,
            item="token",
            peers={OWN: _own(whole)},
            contenders={
                "whole": Contender(
                    run=through(whole), value=lambda x: x, half=through(half), steepest=STEEPEST, compiled=False
                )
            },
            tolerance=1e-5,
        )


def _rows(prompts: int) -> Rows:
    rng = np.random.default_rng(0)
    n = prompts * SIZE
    length_N = rng.integers(10, 51, size=n) * STEP
    at = np.arange(int(length_N.max()))
    real = at < length_N[:, None]
    return Rows(
        prompt=rng.integers(1, 151_000, size=(n, PROMPT)),
        ids=rng.integers(1, 151_000, size=real.shape),
        real=real,
        policy=real & ((at // STEP) % 2 == 0),
        reward=rng.integers(0, 2, size=n).astype(np.float64),
    )


def _own(rows: Rows) -> Peer | str:
    try:
        import torch
    except ImportError:
        return "torch is not installed; pip install 'apportion[train]'"
    policy, reward = torch.from_numpy(rows.policy), torch.from_numpy(rows.reward)

    def run() -> Any:
        groups = reward.view(-1, SIZE)
        std = groups.std(1, keepdim=True)
        own = torch.where(std > 0, (groups - groups.mean(1, keepdim=True)) / std.clamp(min=1e-9), 0.0)
        return own.view(-1, 1) * policy

    return Peer(run, lambda x: np.asarray(x.numpy(), dtype=np.float64))


def _trl(rows: Rows) -> Callable[[], Array]:
    """`rows_of`, `host_row`, `batch_of`, credit, `onto_rows`: what `with_credit` does with one process's rows."""
    import torch

    from apportion.adapters.rows import batch_of, onto_rows
    from apportion.adapters.trl.rollouts import host_row, rows_of

    out = {
        "prompt_ids": torch.from_numpy(rows.prompt),
        "prompt_mask": torch.ones(rows.prompt.shape, dtype=torch.int64),
        "completion_ids": torch.from_numpy(rows.ids),
        "completion_mask": torch.from_numpy(rows.real.astype(np.int64)),
        "tool_mask": torch.from_numpy(rows.policy.astype(np.int64)),
    }
    inputs: list[dict[str, Any]] = [{} for _ in rows.ids]

    def run() -> Array:
        plain = rows_of(out, inputs, own_rollouts=False, environments=None, marks=(), ends=(0,), scores={})
        told = [
            host_row(row, group=str(n // SIZE), id=str(n), reward=float(rows.reward[n]), outcomes={})
            for n, row in enumerate(plain)
        ]
        credit = assign("grpo", by_step(batch_of(told)))
        return onto_rows(credit.to_tokens(), told, rows.ids.shape[1])[0]

    return run


def _verl(rows: Rows) -> Callable[[], Array]:
    """`rollouts_of`, credit, `onto_rows`: what the advantage stage does once it has fetched its rows."""
    from apportion.adapters.verl.rollouts import Part, rollouts_of

    size_N = rows.real.sum(axis=1)

    def run() -> Array:
        parts = []
        for n, size in enumerate(size_N.tolist()):
            score = np.zeros(size)
            score[-1] = rows.reward[n]
            sampled = rows.policy[n, :size]
            parts.append(
                Part(n, f"{n // SIZE}", f"{n}", 0, rows.prompt[n], rows.ids[n, :size], sampled, sampled, score)
            )
        rollouts = rollouts_of(parts)
        tokens = assign("grpo", by_step(rollouts.batch)).to_tokens()
        out = np.zeros(rows.ids.shape)
        for n, (advantage, _) in rollouts.onto_rows(tokens).items():
            out[n, : len(advantage)] = advantage
        return out

    return run
