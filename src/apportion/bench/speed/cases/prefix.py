"""Prefix trees of groups of samples, against TEMPO's fork of verl and against a trie of dictionaries."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from apportion.bench.speed.compare import Comparison, Contender, Peer, Run, under, without_numba
from apportion.bench.speed.limit import fill
from apportion.bench.speed.peers import Peers
from apportion.bench.speed.registry import Setting, case
from apportion.numerics import Array, IntArray
from apportion.numerics.kernels import THRESHOLD, VARIABLE
from apportion.numerics.prefix import prefix_changes, prefix_runs

FORK, TRIE = "TEMPO's fork", "dict trie"
SHORT_SHARE = 20
"""Tokens after which siblings part on average, in the batches that are sampled independently."""


@dataclass(frozen=True)
class Samples:
    """Token ids of rollouts end to end, ``size`` rollouts for each prompt."""

    token_X: Array
    length_N: IntArray
    group_of_N: IntArray
    reward_N: Array
    size: int

    @property
    def stop_N(self) -> IntArray:
        """End of each rollout."""
        return np.cumsum(self.length_N)

    def first_half(self) -> Samples:
        """The first half of the prompts."""
        keep = len(self.length_N) // self.size // 2 * self.size
        n = int(self.length_N[:keep].sum())
        return Samples(self.token_X[:n], self.length_N[:keep], self.group_of_N[:keep], self.reward_N[:keep], self.size)


@case("prefix")
def prefix_cases(setting: Setting) -> Iterator[Comparison]:
    """Short prefixes, as independent sampling gives them, then long ones, as tree rollouts do."""
    prompts = 16 if setting.quick else 128
    yield _comparison(
        "short prefixes", samples(prompts, 8, 1000, 8192), setting, fork=True, floor={FORK: 500.0}, ceiling=4.0
    )
    yield _comparison("tree", samples(4, 8, 512, 1024, tree=True), setting, fork=True, floor={FORK: 5000.0})
    large = samples(2 if setting.quick else 16, 8, 1000, 8192, tree=True)
    yield _comparison("tree", large, setting, fork=False, floor={TRIE: 200.0}, slowest=12e-9)


def samples(prompts: int, size: int, low: int, high: int, *, tree: bool = False, seed: int = 0) -> Samples:
    """Random ids; each rollout but the first of a prompt starts with a piece of an earlier one of it."""
    rng = np.random.default_rng(seed)
    rows: list[Array] = []
    for _ in range(prompts):
        own = [rng.integers(0, 151_000, size=int(n), dtype=np.int32) for n in rng.integers(low, high + 1, size=size)]
        for j in range(1, size):
            other = own[int(rng.integers(0, j))]
            share = int(rng.integers(1, 6)) * (high // 6) if tree else int(rng.geometric(1 / SHORT_SHARE))
            share = min(share, len(other), len(own[j]))
            own[j][:share] = other[:share]
        rows += own
    reward = (rng.random(len(rows)) < 0.4).astype(np.float32)
    length = np.array([len(row) for row in rows])
    return Samples(np.concatenate(rows), length, np.repeat(np.arange(prompts), size), reward, size)


def changes(b: Samples) -> Array:
    """Ours: what the value of the prefix changes by, at every token."""
    stop = b.stop_N
    runs = prefix_runs(b.token_X, stop - b.length_N, stop, b.group_of_N)
    out = np.zeros(len(b.token_X), dtype=np.float32)
    out[runs.start_R] = prefix_changes(runs, b.reward_N, b.group_of_N)
    return out


def compiled(b: Samples) -> Run:
    """The same with the compiled kernels, which a batch below their threshold gets only where the user asks."""
    return under(VARIABLE, "1", lambda: changes(b))


def trie(b: Samples) -> Array:
    """The same with a dictionary for each token of the tree."""
    out, at = np.zeros(len(b.token_X), dtype=np.float32), 0
    lists = [row.tolist() for row in np.split(b.token_X, b.stop_N[:-1])]
    for first in range(0, len(lists), b.size):
        root: list[Any] = [0.0, 0, {}]
        for i in range(first, first + b.size):
            reward, node = float(b.reward_N[i]), root
            root[0] += reward
            root[1] += 1
            for token in lists[i]:
                node = node[2].setdefault(token, [0.0, 0, {}])
                node[0] += reward
                node[1] += 1
        for i in range(first, first + b.size):
            node, value = root, root[0] / root[1]
            for token in lists[i]:
                node = node[2][token]
                after = node[0] / node[1]
                out[at] = after - value
                value, at = after, at + 1
    return out


def _comparison(
    shape: str,
    b: Samples,
    setting: Setting,
    *,
    fork: bool,
    floor: dict[str, float],
    ceiling: float | None = None,
    slowest: float | None = None,
) -> Comparison:
    half = b.first_half()
    peers: dict[str, Peer | str] = {FORK: _fork(b, setting)} if fork else {}
    if len(b.token_X) < 10**6:
        peers[TRIE] = Peer(lambda: trie(b), lambda result: result)
    limit = fill(len(b.token_X), np.float32)
    contenders = {
        "runs": Contender(
            run=lambda: changes(b),
            value=lambda result: result,
            floor=floor,
            slowest=slowest,
            limit=limit,
            ceiling=ceiling,
            half=lambda: changes(half),
        ),
        "runs, NumPy alone": Contender(
            run=without_numba(lambda: changes(b)),
            value=lambda result: result,
            floor={FORK: 20.0},
            limit=limit,
            half=without_numba(lambda: changes(half)),
            compiled=False,
        ),
    }
    if len(b.token_X) < THRESHOLD and importlib.util.find_spec("numba") is not None:
        contenders[f"runs, {VARIABLE}=1"] = Contender(
            run=compiled(b),
            value=lambda result: result,
            floor=floor,
            limit=limit,
            half=compiled(half),
            compiled=False,
        )
    return Comparison(
        kernel="TEMPO prefix values",
        batch=f"{shape}, {len(b.length_N) // b.size} × {b.size}, {len(b.token_X):,} tokens",
        items=len(b.token_X),
        item="token",
        peers=peers,
        contenders=contenders,
    )


def _fork(b: Samples, setting: Setting) -> Peer | str:
    """Its advantage is the rollout's place in its group plus the change; the former is taken off again."""
    theirs = setting.beside_torch(Peers.tempo)
    if isinstance(theirs, str):
        return theirs
    import torch

    n, width = len(b.length_N), int(b.length_N.max())
    real = np.arange(width) < b.length_N[:, None]
    ids = np.zeros((n, width), dtype=np.int64)
    ids[real] = b.token_X
    reward = np.zeros((n, width), dtype=np.float32)
    reward[np.arange(n), b.length_N - 1] = b.reward_N
    names = np.array([f"prompt-{g}" for g in b.group_of_N], dtype=object)
    rewards, responses, mask = (
        torch.from_numpy(reward),
        torch.from_numpy(ids),
        torch.from_numpy(real.astype(np.float32)),
    )
    mean_N = b.reward_N.reshape(-1, b.size).mean(1).repeat(b.size)

    def value(result: Any) -> Array:
        packed: Array = result[0].numpy()[real] - np.repeat(b.reward_N - mean_N, b.length_N)
        return packed

    return Peer(
        lambda: theirs(rewards, responses, mask, None, names, 1.0, norm_adv_by_std_in_grpo=False),
        value,
    )
