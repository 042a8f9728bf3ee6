"""Responses in which the policy said nothing."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.data import Batch
from apportion.numerics import seg_count


@register("empty-response", on="batch", cheap=True)
def empty_response(batch: Batch) -> Yields:
    """Rollouts without a sampled token, and single steps with an empty action."""
    names = batch.names()
    mute = np.flatnonzero(~batch.has_tokens_N)
    if len(mute):
        yield Finding(
            "empty-response",
            "warning",
            f"{len(mute)} of {count(len(batch), 'rollout')} have no sampled token "
            f"({named((names[n] for n in mute), len(mute))}): their reward reaches nobody, they leave the statistics",
            "look for an engine error, a stop string at the start or a lost column; else drop them",
            {"rollouts": len(mute), "of": len(batch), "share": len(mute) / len(batch)},
            places(names[n] for n in mute),
        )
    size_S = seg_count(batch.step_of_T, where=batch.sampled_T, n=len(batch.traj_of_S))
    empty_S = (size_S == 0) & batch.has_tokens_N[batch.traj_of_S]
    touched = np.unique(batch.traj_of_S[empty_S])
    if len(touched):
        steps = int(np.count_nonzero(empty_S))
        yield Finding(
            "empty-response/step",
            "info",
            f"{steps} of {count(len(size_S), 'step')} have an empty action, in {count(len(touched), 'rollout')} "
            f"({named((names[n] for n in touched), len(touched))}): they hold no credit",
            "nothing to do where the policy did say nothing there",
            {"steps": steps, "of": len(size_S), "share": steps / len(size_S), "rollouts": len(touched)},
            places(names[n] for n in touched),
        )
