"""What a run tells while it goes on, and what it came to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apportion.data.atomic import atomic_write
from apportion.train.metrics import read_metrics


@dataclass(frozen=True, slots=True)
class Progress:
    """What is going on: "clone", "evaluate" or "train", how far, and the newest numbers."""

    stage: str
    done: int
    total: int
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to.

    folder: of the run; its ``policy`` can be loaded by transformers or be another run's ``start``.
    iterations, generated_tokens: done in training. before, after: evaluations on held-out tasks.
    credit_share: seconds of cutting, assigning and spreading credit over all seconds of the iterations.
    stopped: why a listener ended the run; None where it went to its end.
    """

    folder: Path
    iterations: int
    generated_tokens: int
    before: Mapping[str, float]
    after: Mapping[str, float]
    seconds: float
    credit_share: float
    stopped: str | None = None

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Every line of the run's ``metrics.jsonl``."""
        return read_metrics(self.folder / "metrics.jsonl")

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, for JSON; without the folder."""
        return {
            "iterations": self.iterations,
            "generated_tokens": self.generated_tokens,
            "before": dict(self.before),
            "after": dict(self.after),
            "seconds": self.seconds,
            "credit_share": self.credit_share,
            "stopped": self.stopped,
        }


def write_result(result: RunResult) -> None:
    """What a run came to, as ``result.json`` in its folder."""
    summary = result.to_mapping()
    if result.stopped is None:
        del summary["stopped"]
    with atomic_write(result.folder / "result.json") as file:
        file.write(json.dumps(summary, indent=2).encode() + b"\n")
