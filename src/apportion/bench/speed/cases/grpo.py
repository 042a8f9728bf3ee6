"""Group advantages of outcomes, against verl's loop and its vectorised form, ids made from text inside the timing."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np

from apportion.bench.speed.batches import tokens
from apportion.bench.speed.compare import Comparison, Contender, Peer
from apportion.bench.speed.limit import fill
from apportion.bench.speed.peers import Absent
from apportion.bench.speed.registry import Setting, case
from apportion.numerics import Array, centre, labels

LOOP, VECTORISED = "verl's loop", "verl vectorised"
VERL_EPSILON = 1e-6
GRPO = ("compute_grpo_outcome_advantage", "compute_grpo_vectorized_outcome_advantage")
RLOO = ("compute_rloo_outcome_advantage", "compute_rloo_vectorized_outcome_advantage")


@case("grpo")
def grpo_cases(setting: Setting) -> Iterator[Comparison]:
    """One number per rollout, then one per token."""
    rng = np.random.default_rng(0)
    for rows, size in ((1024, 8),) if setting.quick else ((1024, 8), (8192, 16), (65536, 16)):
        names = _names(rng, rows // size, size)
        score = rng.random(rows)
        yield _scalars("GRPO", names, score, setting)
        yield _scalars("RLOO", names, score, setting)
    yield _to_tokens(setting)


def grpo(names: Array, score: Array) -> Array:
    """Ours, with verl's epsilon."""
    return centre(score, labels(names), scale="std", epsilon=VERL_EPSILON)


def rloo(names: Array, score: Array) -> Array:
    """Ours."""
    return centre(score, labels(names), leave_one_out=True)


def _scalars(kernel: str, names: Array, score: Array, setting: Setting) -> Comparison:
    ours = grpo if kernel == "GRPO" else rloo
    half = len(score) // 2
    reward = score.astype(np.float32)[:, None]
    return Comparison(
        kernel=f"{kernel} scalars",
        batch=f"{len(score):,} rollouts",
        items=len(score),
        item="rollout",
        peers=_verl(setting, GRPO if kernel == "GRPO" else RLOO, reward, np.ones_like(reward), names),
        contenders={
            "labels and centre": Contender(
                run=lambda: ours(names, score),
                value=lambda result: result[:, None],
                floor={LOOP: 50.0, VECTORISED: 2.0},
                half=lambda: ours(names[:half], score[:half]),
            )
        },
        tolerance=2e-4,  # float32 inside the peer
    )


def _to_tokens(setting: Setting) -> Comparison:
    b = tokens("math", quick=setting.quick)
    n = len(b.length_N)
    names = _names(np.random.default_rng(1), n // 8, 8)
    score = np.random.default_rng(2).random(n)
    reward_X = np.zeros_like(b.reward_X)
    reward_X[np.cumsum(b.length_N) - 1] = score

    def packed(k: int) -> Array:
        return np.repeat(grpo(names[:k], score[:k]).astype(np.float32), b.length_N[:k])

    return Comparison(
        kernel="GRPO to tokens",
        batch="math",
        items=int(b.length_N.sum()),
        item="token",
        peers=_verl(setting, GRPO, b.padded(reward_X), b.padded(b.sampled_X).astype(np.float32), names, b.packed),
        contenders={
            "packed": Contender(
                run=lambda: packed(n),
                value=lambda result: result,
                floor={LOOP: 8.0, VECTORISED: 2.0},
                limit=fill(int(b.length_N.sum()), np.float32),
                ceiling=2.5,
                half=lambda: packed(n // 2),
                compiled=False,
            )
        },
        tolerance=2e-4,
    )


def _verl(
    setting: Setting, functions: tuple[str, str], reward: Array, mask: Array, names: Array, value: Any = None
) -> dict[str, Peer | str]:
    try:
        import torch

        core = setting.peers.verl()
    except (Absent, ImportError) as reason:
        return {LOOP: str(reason), VECTORISED: str(reason)}
    torch.set_num_threads(1)
    rewards, masks = torch.from_numpy(reward), torch.from_numpy(mask)

    def peer(name: str) -> Peer:
        function = getattr(core, name)
        return Peer(
            lambda: function(rewards, masks, names),
            lambda result: result[0].numpy() if value is None else value(result[0].numpy()),
        )

    return {LOOP: peer(functions[0]), VECTORISED: peer(functions[1])}


def _names(rng: np.random.Generator, groups: int, size: int) -> Array:
    """Group names as hosts make them: random UUIDs as text."""
    out = np.empty(groups * size, dtype=object)
    out[:] = [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(groups) for _ in range(size)]
    for g in range(groups):
        out[g * size : (g + 1) * size] = out[g * size]
    return out
