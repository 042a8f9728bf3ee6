"""Counting: of so many planted faults how many are found, of so many innocents how many are accused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import Any

import numpy as np

from apportion.bench.check.faults import Fault, faults, findings_of, fires
from apportion.bench.check.world import rollouts
from apportion.check import Findings

CALIBRATION = 1000
"""First of the seeds that thresholds were chosen on; the tests use seeds below it."""
GOOD = 0.9
"""Recall and precision that every check should have."""
SWEEPS: dict[str, tuple[str, str, Sequence[float]]] = {
    "constant-group": ("constant_group", "MANY", (0.1, 0.2, 0.35, 0.5, 0.7, 0.9)),
    "under-grouped/volatile": ("under_grouped", "GAP", (0.01, 0.05, 0.1, 0.3, 0.6, 0.9)),
    "over-grouped/degenerate": ("over_grouped", "DOMINANT", (0.1, 0.2, 0.35, 0.5, 0.7, 0.95)),
    "over-grouped/numbers": ("over_grouped", "NUMBERS", (0.0, 0.02, 0.05, 0.2, 0.5, 0.8)),
    "over-grouped/future": ("over_grouped", "FUTURES", (0.0, 0.05, 0.1, 0.3, 0.6, 0.9)),
    "partial-observability": ("partial_observability", "RATE", (0.0001, 0.001, 0.01, 0.05, 0.2, 0.5)),
    "own-repeats": ("own_repeats", "MANY", (0.0, 0.02, 0.1, 0.2, 0.4, 0.6)),
    "state-alone": ("state_alone", "RARE", (0.0001, 0.02, 0.05, 0.2, 0.5, 0.8)),
    "failed": ("failed", "MANY", (0.01, 0.1, 0.2, 0.3, 0.5)),
    "repetition": ("repetition", "HIGH", (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)),
    "pseudo-positive": ("pseudo_positive", "HIGH", (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)),
    "clip-rate": ("clip_rate", "MANY", (0.02, 0.1, 0.2, 0.3, 0.6)),
    "thinking-unsolved": ("thinking_unsolved", "MANY", (0.0, 0.05, 0.1, 0.2, 0.4)),
    "one-step": ("one_step", "SIZE", (0.05, 0.2, 0.5, 0.7, 0.9, 1.2)),
    "zero-step": ("zero_step", "PART", (0.01, 0.05, 0.1, 0.2, 0.5)),
    "gram-filler": ("gram_filler", "DENSE", (0.02, 0.05, 0.1, 0.25, 0.4, 0.6)),
    "claimed-success/contradicted": ("claimed_success", "MANY", (0.0, 0.1, 0.2, 0.4, 0.8)),
    "credit-concentrated": ("credit_concentrated", "MOST", (0.05, 0.1, 0.3, 0.5, 0.8)),
    "credit-unknown": ("credit_unknown", "MANY", (0.1, 0.3, 0.5, 0.7, 0.9)),
    "credit-confounded/length": ("credit_confounded", "STRONG", (0.1, 0.3, 0.5, 0.7, 0.9)),
    "credit-confounded/place": ("credit_confounded", "STRONG", (0.1, 0.3, 0.5, 0.7, 0.9)),
    "credit-confounded/phrase": ("credit_confounded", "STRONG", (0.1, 0.3, 0.5, 0.7, 0.9)),
    "credit-starved": ("credit_starved", "GETS", (0.001, 0.005, 0.01, 0.1, 0.5)),
    "method-disagreement": ("method_disagreement", "OPPOSITE", (0.01, 0.1, 0.2, 0.4, 0.8)),
}
"""Thresholds that a sweep moves: module of the check, name of the constant, values."""


@dataclass(frozen=True, slots=True)
class Score:
    """What came of one fault.

    Attributes:
        code: of the finding. threshold: what a sweep had set. runs: batches of each kind.
        found: of the faulty ones. clean, alike: findings on innocents, the world as it is and the likeness.
    """

    code: str
    runs: int
    found: int
    clean: int
    alike: int
    threshold: str = ""

    @property
    def recall(self) -> float:
        """Share of the faulty batches that are found."""
        return self.found / self.runs

    @property
    def precision(self) -> float:
        """Share of the findings that are right, with as many faulty as innocent batches; 1 where nothing was found."""
        wrong = (self.clean + self.alike) / 2
        return self.found / (self.found + wrong) if self.found + wrong else 1.0

    @property
    def good(self) -> bool:
        """Both are what they should be."""
        return self.recall >= GOOD and self.precision >= GOOD

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "recall": self.recall, "precision": self.precision}


def score(one: Fault, runs: int, seed: int, *, threshold: str = "") -> Score:
    """Plant a fault so many times, and look."""
    found = clean = alike = 0
    for k in range(runs):
        found += fires(one, looked(one, seed + k, "plant"))
        clean += fires(one, looked(one, seed + k, "clean"))
        alike += fires(one, looked(one, seed + k, "likeness"))
    return Score(one.code, runs, found, clean, alike, threshold)


def looked(one: Fault, seed: int, kind: str) -> Findings:
    """What the checks say of one batch: "plant", "likeness", or "clean"."""
    rng = np.random.default_rng([seed, sum(one.code.encode())])
    world = rollouts(rng)
    if kind == "clean":
        subject: Any = one.likeness(rng, world) if one.code.startswith(("credit", "normal", "method")) else world
        return findings_of(subject)
    return findings_of(getattr(one, kind)(rng, world))


def sweep(code: str, runs: int, seed: int) -> list[Score]:
    """The score of a fault under several values of a threshold, which is put back afterwards."""
    file, name, values = SWEEPS[code]
    module = import_module(f"apportion.check.checks.{file}")
    before = getattr(module, name)
    out = []
    try:
        for value in sorted({*values, before}):
            setattr(module, name, value)
            mark = " (now)" if value == before else ""
            out.append(score(faults()[code], runs, seed, threshold=f"{name} = {value:g}{mark}"))
    finally:
        setattr(module, name, before)
    return out
