"""PURE's min-form: weights of process rewards, and what they put on tokens, against the authors' padded tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from apportion.bench.speed.batches import tokens
from apportion.bench.speed.compare import Comparison, Contender, Peer
from apportion.bench.speed.limit import fill
from apportion.bench.speed.registry import Setting, case
from apportion.numerics import Array, FloatArray, IntArray, seg_sum, to_go
from apportion.numerics.minform import grid_min, min_form

WEIGHTS, SOFT, STRICT = "PURE's weighting", "PURE's weighting and RLOO", "PURE's RLOO of minima"
TEMPERATURE = 0.1
STEP = 80
"""Tokens of a step, on average."""


@dataclass(frozen=True)
class Steps:
    """Process rewards at the ends of steps. ``width`` is one more than the longest rollout: no row is full."""

    reward_S: FloatArray
    tokens_S: IntArray
    traj_of_S: IntArray
    length_N: IntArray
    group_of_N: IntArray
    width: int

    def first_half(self) -> Steps:
        """The first half of the rollouts."""
        keep = len(self.length_N) // 2
        own = self.traj_of_S < keep
        parts = (self.reward_S[own], self.tokens_S[own], self.traj_of_S[own])
        return Steps(*parts, self.length_N[:keep], self.group_of_N[:keep], self.width)


@case("minform")
def minform_cases(setting: Setting) -> Iterator[Comparison]:
    """Step rewards alone; then returns less the others' baseline on tokens, soft and strict."""
    b = steps(tokens("math", quick=setting.quick).length_N)
    half = b.first_half()
    peers = _peers(b, setting)
    n = int(b.length_N.sum())
    yield _comparison("step rewards", n, {WEIGHTS: peers[0]}, lambda: weighed(b), lambda: weighed(half), 80.0)
    yield _comparison("soft, on tokens", n, {SOFT: peers[1]}, lambda: soft(b), lambda: soft(half), 8.0)
    yield _comparison("strict, on tokens", n, {STRICT: peers[2]}, lambda: strict(b), lambda: strict(half), 15.0)


def steps(length_N: IntArray) -> Steps:
    """Steps of random lengths, all scored between -1 and 1; eight rollouts a group."""
    rng = np.random.default_rng(3)
    sizes = []
    for length in length_N.tolist():
        ends = np.sort(rng.choice(length - 1, size=max(1, length // STEP) - 1, replace=False)) + 1
        sizes.append(np.diff(ends, prepend=0, append=length))
    many_N = np.array([len(own) for own in sizes])
    n = len(length_N)
    return Steps(
        rng.uniform(-1, 1, size=int(many_N.sum())).astype(np.float32).astype(np.float64),
        np.concatenate(sizes),
        np.repeat(np.arange(n), many_N),
        length_N,
        np.arange(n) // 8,
        int(length_N.max()) + 1,
    )


def weighed(b: Steps) -> FloatArray:
    """Ours: one number per step."""
    return min_form(b.reward_S, b.traj_of_S, temperature=TEMPERATURE)


def soft(b: Steps) -> Array:
    """Ours: sums of weighted rewards to come, less what the others have on average, on tokens."""
    return _on_tokens(b, to_go(weighed(b), b.traj_of_S))


def strict(b: Steps) -> Array:
    """Ours, in the peer's form: the smallest number to come, zeros of other tokens included."""
    every = np.ones(len(b.reward_S), dtype=bool)
    return _on_tokens(b, grid_min(b.reward_S, b.traj_of_S, where=every, zeros=every))


def _on_tokens(b: Steps, return_S: FloatArray) -> Array:
    area_N = seg_sum(return_S * b.tokens_S, b.traj_of_S, n=len(b.length_N))
    total_G, size_G = np.bincount(b.group_of_N, weights=area_N), np.bincount(b.group_of_N)
    base_N = (total_G[b.group_of_N] - area_N) / ((size_G[b.group_of_N] - 1) * b.width)
    return np.repeat((return_S - base_N[b.traj_of_S]).astype(np.float32), b.tokens_S)


def _peers(b: Steps, setting: Setting) -> list[Peer | str]:
    found = setting.beside_torch(lambda peers: (peers.pure_weighting(), peers.pure().compute_rloo_outcome_advantage))
    if isinstance(found, str):
        return [found] * 3
    import torch

    weighting, rloo = found
    real = np.arange(b.width) < b.length_N[:, None]
    ends = np.zeros(int(b.length_N.sum()), dtype=bool)
    ends[np.cumsum(b.tokens_S) - 1] = True
    held = np.zeros(real.shape, dtype=bool)
    held[real] = ends
    reward = np.zeros(real.shape, dtype=np.float32)
    reward[held] = b.reward_S
    scores, marks, mask = torch.from_numpy(reward), torch.from_numpy(held), torch.from_numpy(real.astype(np.float32))
    owner = SimpleNamespace(temperature=TEMPERATURE)

    def weights() -> Any:
        return weighting(torch, owner, scores.clone(), marks)

    return [
        Peer(weights, lambda result: result.numpy()[held]),
        Peer(lambda: rloo(weights(), mask, b.group_of_N), lambda result: result[0].numpy()[real]),
        Peer(
            lambda: rloo(scores, mask, b.group_of_N, return_aggregate_method="min"),
            lambda result: result[0].numpy()[real],
        ),
    ]


def _comparison(kernel: str, n: int, peers: dict[str, Peer | str], run: Any, half: Any, floor: float) -> Comparison:
    on_tokens = "tokens" in kernel
    return Comparison(
        kernel=f"PURE min-form, {kernel}",
        batch="math",
        items=n,
        item="token",
        peers=peers,
        contenders={
            "per step": Contender(
                run=run,
                value=lambda result: result,
                floor=dict.fromkeys(peers, floor),
                limit=fill(n, np.float32) if on_tokens else None,
                ceiling=10.0 if on_tokens else None,
                half=half,
            )
        },
    )
