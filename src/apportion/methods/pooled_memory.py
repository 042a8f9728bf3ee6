"""The memory of `pooled`: returns of recurring states over earlier batches, and what these batches said about settings.

It is a value: `pooled` reads one and gives back *news*, what its batch adds; ``memory.merge(news)`` is the memory for
the next batch. Merging is addition after both sides have aged to the newer tick, so it does not matter in which order
news of several workers arrive, and late news weigh what their age says. Nothing is dropped in a merge; `trimmed`
bounds the size.

    sum(tick) = sum over batches of decay^(tick - tick of the batch) * sum of the batch        for each of `DECAYS`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apportion.errors import DataError
from apportion.numerics import FloatArray

DECAYS = (0.6, 0.9, 0.97)
EVIDENCE_DECAY = 0.95
CAPACITY = 50_000
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Memory:
    """Decayed counts and sums.

    Attributes:
        tick: number of the newest batch in it; 0 = none.
        key: keys of states (of every kind), sorted, each once; (K,) uint64.
        count, total: decayed number of visits and sum of their returns to go (reward units), (K, decays).
        evidence: decayed sums for the choice of settings, (rows, columns), see `apportion.methods.pooled_choice`.
        gamma: discount of the returns in it; None = none yet, or from before it was kept.
    """

    tick: int = 0
    key: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    count: FloatArray = field(default_factory=lambda: np.zeros((0, len(DECAYS))))
    total: FloatArray = field(default_factory=lambda: np.zeros((0, len(DECAYS))))
    evidence: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    gamma: float | None = None

    def __len__(self) -> int:
        return len(self.key)

    def aged(self, tick: int) -> Memory:
        """The same memory at a later tick."""
        steps = tick - self.tick
        if steps == 0:
            return self
        if steps < 0:
            raise DataError(f"memory of tick {self.tick} cannot be aged back to {tick}; give a later tick")
        fade = np.array(DECAYS) ** steps
        evidence = self.evidence * EVIDENCE_DECAY**steps
        return Memory(tick, self.key, self.count * fade, self.total * fade, evidence, self.gamma)

    def check_gamma(self, gamma: float) -> None:
        """Refuse to go on with returns of another discount.

        Raises:
            DataError: both discounts.
        """
        if self.gamma is not None and self.gamma != gamma:
            raise DataError(
                f"memory: its returns are of gamma={self.gamma:g}, and gamma is {gamma:g} now; take gamma="
                f"{self.gamma:g}, or start without it"
            )

    def merge(self, other: Memory) -> Memory:
        """Both together, at the newer tick; the order and the brackets of several merges do not matter."""
        if other.gamma is not None:
            self.check_gamma(other.gamma)
        gamma = other.gamma if self.gamma is None else self.gamma
        tick = max(self.tick, other.tick)
        a, b = self.aged(tick), other.aged(tick)
        key = np.union1d(a.key, b.key)
        count, total = np.zeros((2, len(key), len(DECAYS)))
        for one in (a, b):
            at = np.searchsorted(key, one.key)
            count[at] += one.count
            total[at] += one.total
        evidence = a.evidence if not b.evidence.size else b.evidence if not a.evidence.size else a.evidence + b.evidence
        return Memory(tick, key, count, total, evidence, gamma)

    def trimmed(self, capacity: int = CAPACITY) -> Memory:
        """At most so many states: those with the largest counts at the slowest decay, equal ones by key."""
        if len(self) <= capacity:
            return self
        keep = np.sort(np.lexsort((self.key, -self.count[:, -1]))[:capacity])
        return Memory(self.tick, self.key[keep], self.count[keep], self.total[keep], self.evidence, self.gamma)

    def look_up(self, key_S: NDArray[np.uint64]) -> tuple[FloatArray, FloatArray]:
        """Count and sum of returns of each key at every decay, (S, decays); 0 where it is not known."""
        at = np.minimum(np.searchsorted(self.key, key_S), max(len(self) - 1, 0))
        count, total = np.zeros((2, len(key_S), len(DECAYS)))
        if len(self):
            known = self.key[at] == key_S
            count[known], total[known] = self.count[at[known]], self.total[at[known]]
        return count, total

    def to_mapping(self) -> dict[str, Any]:
        """Plain JSON values; floats keep their bits."""
        return {
            "format": FORMAT,
            "decays": list(DECAYS),
            "tick": self.tick,
            "key": [int(k) for k in self.key],
            "count": self.count.tolist(),
            "total": self.total.tolist(),
            "evidence": self.evidence.tolist(),
            **({} if self.gamma is None else {"gamma": self.gamma}),
        }

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Memory:
        """What `to_mapping` gave.

        Raises:
            DataError: another format, or arrays that do not fit each other.
        """
        try:
            if isinstance(values["format"], int) and values["format"] > FORMAT:
                raise DataError(
                    f"memory: format {values['format']} of a newer apportion, this one reads {FORMAT}; update it"
                )
            if values["format"] != FORMAT or tuple(values["decays"]) != DECAYS:
                raise DataError(f"memory: format {values['format']} with decays {values['decays']}; start without it")
            key = np.array(values["key"], dtype=np.uint64)
            shape = (len(key), len(DECAYS))
            count = np.array(values["count"], dtype=np.float64).reshape(shape)
            total = np.array(values["total"], dtype=np.float64).reshape(shape)
            evidence = np.array(values["evidence"], dtype=np.float64)
            tick = int(values["tick"])
            gamma = None if values.get("gamma") is None else float(values["gamma"])
        except (KeyError, TypeError, ValueError, OverflowError) as problem:
            raise DataError(f"memory: cannot be read ({problem}); start without it") from None
        if np.any(np.diff(key.astype(object)) <= 0) or not all(np.isfinite(x).all() for x in (count, total, evidence)):
            raise DataError("memory: keys must be sorted and sums finite; start without it")
        if tick < 0 or (count < 0).any():
            raise DataError(f"memory: tick {tick} or counts below 0, which no batch leaves; start without it")
        evidence = evidence.reshape(len(evidence), -1) if evidence.size else np.zeros((0, 0))
        return cls(tick, key, count, total, evidence, gamma)


def news_of(
    tick: int, keys: Mapping[str, NDArray[np.uint64]], return_S: FloatArray, evidence: FloatArray, gamma: float
) -> Memory:
    """What one batch adds: every unit under each of its keys."""
    every = np.concatenate(list(keys.values()))
    key, at = np.unique(every, return_inverse=True)
    count = np.bincount(at, minlength=len(key)).astype(np.float64)
    total = np.bincount(at, weights=np.tile(return_S, len(keys)), minlength=len(key))
    wide = (1, len(DECAYS))
    return Memory(tick, key, np.tile(count[:, None], wide), np.tile(total[:, None], wide), evidence, gamma)
