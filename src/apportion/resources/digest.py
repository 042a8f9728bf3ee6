"""Digests of what a policy saw and did: caches hold answers under them, so what they are made of does not change."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np

from apportion.data import Step, Trajectory
from apportion.resources.context import action_text, plain


def task_of(trajectory: Trajectory) -> tuple[str, ...]:
    """What tells the task of a rollout from others."""
    meta = trajectory.meta
    named = ("\0" if text is None else text for text in (trajectory.group, trajectory.reference))
    return (*named, repr(meta.get("env")), repr(meta.get("seed")), repr(meta.get("env_options")))


def task_digest(task: tuple[str, ...]) -> hashlib.blake2b:
    """Of the task alone, to which steps are added."""
    digest = hashlib.blake2b(digest_size=20)
    for text in task:
        add_text(digest, text)
    return digest


def add_step(digest: hashlib.blake2b, step: Step, token: int | None) -> None:
    """A step, or its context and the first ``token`` sampled tokens."""
    digest.update(b"\1" if step.fresh else b"\0")
    if step.ids is None:
        for text in (step.observation or "", action_text(step, 0, token)):
            add_text(digest, text)
    else:
        for data in _written(step, token):
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        if step.prompt_ids is None:
            add_text(digest, step.observation or "")


def add_text(digest: hashlib.blake2b, text: str) -> None:
    """A text, told apart from the next by its length."""
    data = text.encode("utf-8", "surrogatepass")
    digest.update(len(data).to_bytes(8, "little"))
    digest.update(data)


KEPT = 256
"""Steps whose ids are kept as text: a plan that asks at every token wants each step's once for every token."""


def _written(step: Step, token: int | None) -> tuple[bytes, bytes | memoryview]:
    """Ids of the prompt, and the first ``token`` sampled ones, as decimals between commas."""
    if token is None:
        return _decimals(step.prompt_ids), _decimals(step.ids)
    prompt, sampled_ids, ends = _kept(step)
    return prompt, memoryview(sampled_ids)[: ends[min(token, len(ends) - 1)]]


@lru_cache(maxsize=KEPT)
def _kept(step: Step) -> tuple[bytes, bytes, list[int]]:
    """Prompt and sampled ids, and where each of the latter ends."""
    ids = [str(i) for i in plain(step.ids)]
    ends = [0, *accumulate((len(i) + 1 for i in ids), initial=-1)]
    return _decimals(step.prompt_ids), ",".join(ids).encode(), [0, *ends[2:]]


def _decimals(ids: Sequence[int] | np.ndarray | None) -> bytes:
    return ",".join(map(str, plain(ids))).encode()
