"""What the line of an iteration says: seconds by stage, how the rollouts went, the size of the credit."""

from __future__ import annotations

import time

import numpy as np

from apportion.credit import Credit
from apportion.data import Batch
from apportion.train.rollout import Rollouts


class Clock:
    """Seconds between laps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """What has passed since the last lap goes to a name."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now

    def total(self) -> float:
        """Seconds since the clock was made."""
        return time.perf_counter() - self._began


def rollout_numbers(collected: Rollouts, batch: Batch) -> dict[str, float]:
    """Means over the rollouts, the entropy of their tokens, and the share of decisions that needed no pass."""
    return {
        "success": float(np.mean(collected.success_N)),
        "return": float(np.mean(collected.return_N)),
        "steps": float(np.mean(collected.steps_N)),
        "entropy": mean_entropy(batch),
        "reused_prompts": collected.reused,
    }


def mean_entropy(batch: Batch) -> float:
    """Of the sampled tokens, nats; 0 where the rollouts do not tell it."""
    if batch.entropy_T is None or not batch.sampled_T.any():
        return 0.0
    return float(batch.entropy_T[batch.sampled_T].mean())


def credit_numbers(credit: Credit) -> dict[str, float]:
    """Size of the credit and its parts, and the counts among the notes."""
    known = credit.advantage_S[credit.weight_S]
    out = {"units": len(known), "std": float(known.std()) if len(known) else 0.0}
    out["zero_share"] = float(np.mean(known == 0)) if len(known) else 0.0
    for name, part in credit.parts.items():
        out[f"std_{name}"] = float(part[credit.weight_S].std()) if len(known) else 0.0
    for name, note in credit.notes.items():
        if isinstance(note, int | float):
            out[name] = float(note)
    return out
