"""Success on tasks that training never sees, greedy and sampled; the two can differ a lot."""

from __future__ import annotations

import numpy as np

from apportion.train.config import EVAL_SEED
from apportion.train.policy import Policy
from apportion.train.rollout import Collector

EVAL_STREAM = 2


def evaluate(policy: Policy, collector: Collector, tasks: int, *, seed: int = 0) -> dict[str, float]:
    """Play each held-out task once greedily and once sampled; equal arguments, equal draws."""
    out: dict[str, float] = {}
    seeds = range(EVAL_SEED, EVAL_SEED + tasks)
    for kind in ("greedy", "sampled"):
        played = collector.collect(policy, seeds, stream=(seed, EVAL_STREAM), greedy=kind == "greedy")
        out[f"success_{kind}"] = float(np.mean(played.success_N))
        out[f"return_{kind}"] = float(np.mean(played.return_N))
        out[f"steps_{kind}"] = float(np.mean(played.steps_N))
    return out
