"""Group advantages of outcomes, and REINFORCE++, against verl's loops and its vectorised forms.

Ids are made from text inside the timing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from apportion.assign import assign
from apportion.bench.speed.batches import Tokens, tokens
from apportion.bench.speed.compare import Comparison, Contender, Peer
from apportion.bench.speed.limit import fill, traffic
from apportion.bench.speed.peers import Peers
from apportion.bench.speed.registry import Setting, case
from apportion.data import Batch, Step, Trajectory
from apportion.numerics import Array, centre, labels, to_go_whitened
from apportion.units import Units, by_token

LOOP, VECTORISED = "verl's loop", "verl vectorised"
VERL_EPSILON = 1e-6
GRPO = ("compute_grpo_outcome_advantage", "compute_grpo_vectorized_outcome_advantage")
REINFORCE_PP = "compute_reinforce_plus_plus_outcome_advantage"
VERL_VARIANCE_EPSILON = 1e-8
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
    b = tokens("math", quick=setting.quick)
    yield _to_tokens("GRPO", b, setting)
    yield _to_tokens("RLOO", b, setting)
    yield _reinforce_pp(b, setting)


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


def _to_tokens(kernel: str, b: Tokens, setting: Setting) -> Comparison:
    scalars, functions = (grpo, GRPO) if kernel == "GRPO" else (rloo, RLOO)
    n = len(b.length_N)
    names = _names(np.random.default_rng(1), n // 8, 8)
    score = np.random.default_rng(2).random(n)
    reward_X = np.zeros_like(b.reward_X)
    reward_X[np.cumsum(b.length_N) - 1] = score

    def packed(k: int) -> Array:
        return np.repeat(scalars(names[:k], score[:k]).astype(np.float32), b.length_N[:k])

    return Comparison(
        kernel=f"{kernel} to tokens",
        batch="math",
        items=int(b.length_N.sum()),
        item="token",
        peers=_verl(setting, functions, b.padded(reward_X), b.padded(b.sampled_X).astype(np.float32), names, b.packed),
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


def _reinforce_pp(b: Tokens, setting: Setting) -> Comparison:
    """The kernel on packed rewards, and the method on units of one token, which also keeps parts and notes."""
    half = b.first_half()
    seg_X, half_seg_X = b.seg_of_X, half.seg_of_X
    units, half_units = (_units(x) for x in (b, half))

    def verl() -> Peer | str:
        core = setting.beside_torch(Peers.verl)
        if isinstance(core, str):
            return core
        import torch

        reward, mask = (
            torch.from_numpy(b.padded(b.reward_X)),
            torch.from_numpy(b.padded(b.sampled_X.astype(np.float32))),
        )
        config = SimpleNamespace(gamma=1.0)
        function = getattr(core, REINFORCE_PP)
        return Peer(lambda: function(reward, mask, config), lambda result: b.packed(result[0].numpy()))

    def method(units: Units) -> Array:
        return assign("reinforce_pp", units, epsilon=VERL_VARIANCE_EPSILON).to_tokens().advantage_T

    return Comparison(
        kernel="REINFORCE++",
        batch="math",
        items=len(b.reward_X),
        item="token",
        peers={"verl": verl()},
        contenders={
            "packed": Contender(
                run=lambda: to_go_whitened(b.reward_X, seg_X, epsilon=VERL_VARIANCE_EPSILON),
                value=lambda result: result.advantage,
                floor={"verl": 50.0},
                limit=traffic([b.reward_X], [np.float32, np.float32]),
                half=lambda: to_go_whitened(half.reward_X, half_seg_X, epsilon=VERL_VARIANCE_EPSILON),
            ),
            "assign and to_tokens": Contender(
                run=lambda: method(units),
                value=lambda result: result,
                half=lambda: method(half_units),
            ),
        },
        tolerance=1e-4,  # float32 sums inside the peer
    )


def _units(b: Tokens) -> Units:
    """Tokens as units; only the last reward of a rollout counts in a `Step`, so all are put in afterwards."""
    ids = np.zeros(int(b.length_N.max()), dtype=np.int64)
    batch = Batch.from_trajectories(
        Trajectory([Step(ids=ids[:n], prompt_ids=ids[:0], reward=0.0)], group="one") for n in b.length_N.tolist()
    )
    return by_token(batch).with_reward(b.reward_X.astype(np.float64))


def _verl(
    setting: Setting, functions: tuple[str, str], reward: Array, mask: Array, names: Array, value: Any = None
) -> dict[str, Peer | str]:
    core = setting.beside_torch(Peers.verl)
    if isinstance(core, str):
        return {LOOP: core, VECTORISED: core}
    import torch

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
