"""Keys and seeds of requests: by content, so that equal questions share an answer and order does not matter."""

from __future__ import annotations

import hashlib
from dataclasses import fields

from apportion.asks import KINDS, Ask

VERSION = "1"
_COUNTS = {"k", "votes", "traj"}  # how often is asked, and about which of several equal rollouts, changes no answer
_FIELDS = {kind: tuple(field.name for field in fields(kind) if field.name not in _COUNTS) for kind in KINDS}


class Names:
    """Names and seeds of the samples of one ask."""

    def __init__(self, ask: Ask, content: bytes, identity: str, seed: int) -> None:
        """What all samples share is digested once.

        Args:
            ask: the question. content: what of the rollout its answer depends on.
            identity: of the resource. seed: of the run.
        """
        parts = _parts(ask, content)
        self._named, self._seeded = _hash(identity, *parts), _hash("seed", *parts)
        self._seed = str(seed)

    def key(self, number: int) -> str:
        """Name of one sample in the cache."""
        return _added(self._named.copy(), str(number), self._seed).hexdigest()

    def seed(self, number: int) -> int:
        """Seed of one sample, 63 bits."""
        return int.from_bytes(_added(self._seeded.copy(), str(number), self._seed).digest()[:8], "big") >> 1


def _parts(ask: Ask, content: bytes) -> tuple[str, ...]:
    told = [f"{name}={_told(getattr(ask, name))}" for name in _FIELDS[type(ask)]]
    return (VERSION, KINDS[type(ask)], *told, content.hex())


def _told(value: object) -> str:
    """As `repr`, but a place without its trajectory."""
    if hasattr(value, "traj"):
        return f"{value.step}.{value.token}"  # type: ignore[attr-defined]
    if isinstance(value, tuple):
        return _listed(value)
    return repr(value)


_last: tuple[tuple[object, ...], str] = ((), "()")


def _listed(values: tuple[object, ...]) -> str:
    """Asks about one unit of many each name all of them, the same tuple, so the last one is kept."""
    global _last
    known = _last
    if known[0] is not values:
        known = values, f"({','.join(map(_told, values))})"
        if len(values) > 1:
            _last = known
    return known[1]


def _hash(*parts: str) -> hashlib.blake2b:
    return _added(hashlib.blake2b(digest_size=20), *parts)


def _added(digest: hashlib.blake2b, *parts: str) -> hashlib.blake2b:
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest
