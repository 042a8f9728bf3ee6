"""Generalised advantages per token, against verl's function and TRL's lines."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np

from apportion.bench.speed.batches import KINDS, Tokens, tokens
from apportion.bench.speed.compare import Comparison, Contender, Peer, without_numba
from apportion.bench.speed.limit import traffic
from apportion.bench.speed.peers import Peers
from apportion.bench.speed.registry import Setting, case
from apportion.numerics import (
    AdvantagesAndReturns,
    Array,
    gae,
    gae_padded,
    gae_returns_whitened,
    gae_returns_whitened_padded,
)

LAM = 0.95
VERL_EPSILON = 1e-8


@case("gae")
def gae_cases(setting: Setting) -> Iterator[Comparison]:
    """The whole of what a PPO trainer needs, then the advantages alone."""
    for kind in KINDS:
        b = tokens(kind, quick=setting.quick)
        yield _full(b, setting)
        if b.sampled_X.all():  # TRL's lines know no observations
            yield _alone(b, setting)


def _full(b: Tokens, setting: Setting) -> Comparison:
    """Advantages, returns and whitening. Compared at sampled positions: verl leaves carried values elsewhere."""
    padded, half = _pad(b), _pad(b.first_half())
    seg_X, half_b = b.seg_of_X, b.first_half()
    half_seg_X = half_b.seg_of_X
    own_X, half_own_X = (None if x.sampled_X.all() else x.sampled_X for x in (b, half_b))
    floor = 40.0 if b.kind == "math" else 150.0
    kept = AdvantagesAndReturns(*(np.full_like(padded[0], np.nan) for _ in range(2)))

    def value(result: Any) -> Array:
        return np.stack([_sampled(b, x) for x in result])

    def verl() -> Peer | str:
        core = setting.beside_torch(Peers.verl)
        if isinstance(core, str):
            return core
        import torch

        reward, values, mask = (torch.from_numpy(x.astype(np.float32)) for x in padded)
        return Peer(
            lambda: core.compute_gae_advantage_return(reward, values, mask, 1.0, LAM),
            lambda result: value([x.numpy() for x in result]),
        )

    inputs = [b.reward_X, b.value_X, *([] if own_X is None else [own_X])]
    return Comparison(
        kernel="GAE, returns, whitening",
        batch=b.kind,
        items=len(b.reward_X),
        item="token",
        peers={"verl": verl()},
        contenders={
            "packed": Contender(
                run=lambda: gae_returns_whitened(
                    b.reward_X, b.value_X, seg_X, lam=LAM, where=own_X, epsilon=VERL_EPSILON
                ),
                value=value,
                floor={"verl": floor},
                limit=traffic(inputs, [np.float32, np.float32]),
                ceiling=6.0,
                half=lambda: gae_returns_whitened(
                    half_b.reward_X, half_b.value_X, half_seg_X, lam=LAM, where=half_own_X, epsilon=VERL_EPSILON
                ),
            ),
            "padded": Contender(
                run=lambda: gae_returns_whitened_padded(*padded, lam=LAM, epsilon=VERL_EPSILON),
                value=value,
                floor={"verl": floor},
                limit=traffic(padded, [np.float32, np.float32]),
                ceiling=6.0,
                half=lambda: gae_returns_whitened_padded(*half, lam=LAM, epsilon=VERL_EPSILON),
            ),
            "padded, into kept memory": Contender(
                run=lambda: gae_returns_whitened_padded(*padded, lam=LAM, epsilon=VERL_EPSILON, out=kept),
                value=value,
                floor={"verl": floor},
            ),
        },
    )


def _alone(b: Tokens, setting: Setting) -> Comparison:
    padded = _pad(b)
    half_b = b.first_half()
    seg_X, half_seg_X = b.seg_of_X, half_b.seg_of_X

    def trl() -> Peer | str:
        lines = setting.beside_torch(Peers.trl_gae)
        if isinstance(lines, str):
            return lines
        import torch

        reward, values, _ = (torch.from_numpy(x) for x in padded)
        args = SimpleNamespace(gamma=1.0, lam=LAM)
        return Peer(
            lambda: lines(torch, args, reward, reward, values),
            lambda result: _sampled(b, result[0].numpy()),
        )

    def packed() -> Array:
        return gae(b.reward_X, b.value_X, seg_X, lam=LAM)

    def half() -> Array:
        return gae(half_b.reward_X, half_b.value_X, half_seg_X, lam=LAM)

    limit = traffic([b.reward_X, b.value_X], [np.float64])
    return Comparison(
        kernel="GAE alone",
        batch=b.kind,
        items=len(b.reward_X),
        item="token",
        peers={"TRL's lines": trl(), **({"torchrl": _torchrl(b, padded)} if b.kind == "math" else {})},
        contenders={
            "packed": Contender(
                run=packed,
                value=lambda result: _sampled(b, result),
                floor={"TRL's lines": 40.0} if b.kind == "math" else {},
                limit=limit,
                ceiling=4.0,
                half=half,
            ),
            "packed, NumPy alone": Contender(
                run=without_numba(packed),
                value=lambda result: _sampled(b, result),
                floor={"TRL's lines": 8.0},
                slowest=20e-9,
                limit=limit,
                half=without_numba(half),
                compiled=False,
            ),
            "padded": Contender(
                run=lambda: gae_padded(*padded, lam=LAM),
                value=lambda result: _sampled(b, result),
                limit=traffic(padded, [np.float64]),
            ),
        },
    )


def _torchrl(b: Tokens, padded: tuple[Array, Array, Array]) -> Peer | str:
    """torchrl's vectorised form, a convolution; the rows of *long* would take it minutes."""
    try:
        import torch

        theirs = importlib.import_module("torchrl.objectives.value.functional").vec_generalized_advantage_estimate
    except ImportError:
        return "torchrl is not installed"
    reward, values, _ = (torch.from_numpy(x)[..., None] for x in padded)
    after = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], 1)
    done = torch.zeros_like(values, dtype=torch.bool)
    done[torch.arange(len(done)), torch.from_numpy(b.length_N) - 1] = True
    done[:, -1] = True
    return Peer(
        lambda: theirs(1.0, LAM, values, after, reward, done, done),
        lambda result: _sampled(b, result[0][..., 0].numpy()),
    )


def _pad(b: Tokens) -> tuple[Array, Array, Array]:
    return b.padded(b.reward_X), b.padded(b.value_X), b.padded(b.sampled_X)


def _sampled(b: Tokens, x: Array) -> Array:
    packed = b.packed(x) if x.ndim == 2 else x
    return packed[b.sampled_X]
