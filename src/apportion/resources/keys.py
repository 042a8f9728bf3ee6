"""Keys and seeds of requests: by content, so that equal questions share an answer and order does not matter."""

from __future__ import annotations

import hashlib
from dataclasses import fields

from apportion.asks import KINDS, Ask

VERSION = "1"
_COUNTS = {"k", "votes", "traj"}  # how often is asked, and about which of several equal rollouts, changes no answer


def key_of(ask: Ask, content: bytes, identity: str, number: int, seed: int) -> str:
    """Name of one sample in the cache.

    Args:
        ask: the question. content: what of the rollout its answer depends on.
        identity: of the resource. number: which sample. seed: of the run.
    """
    return _hash(identity, *_parts(ask, content), str(number), str(seed)).hexdigest()


def seed_of(ask: Ask, content: bytes, number: int, seed: int) -> int:
    """Seed of one sample, 63 bits."""
    return int.from_bytes(_hash("seed", *_parts(ask, content), str(number), str(seed)).digest()[:8], "big") >> 1


def _parts(ask: Ask, content: bytes) -> tuple[str, ...]:
    told = [f"{field.name}={_told(getattr(ask, field.name))}" for field in fields(ask) if field.name not in _COUNTS]
    return (VERSION, KINDS[type(ask)], *told, content.hex())


def _told(value: object) -> str:
    """As `repr`, but a place without its trajectory."""
    if hasattr(value, "traj"):
        return f"{value.step}.{value.token}"  # type: ignore[attr-defined]
    if isinstance(value, tuple):
        return f"({','.join(map(_told, value))})"
    return repr(value)


def _hash(*parts: str) -> hashlib.blake2b:
    digest = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest
