"""Rollouts that a limit ended: flagged without a value, or not flagged at all."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, named, places
from apportion.check.registry import register
from apportion.data import Batch
from apportion.numerics import BoolArray, IntArray, seg_count

LEAST, RATIO, NEAR = 3, 3.0, 8
"""A limit is suspected where at least 3 rollouts have the greatest length, and 3 times as many as any of the 8 lengths
below it."""
SHORTEST_STEPS, SHORTEST_TOKENS = 3, 16
"""Greatest lengths below which a pile-up says nothing."""


@register("truncation", on="batch", cheap=True)
def truncation(batch: Batch) -> Yields:
    """Truncated rollouts without a final value, ends that nobody flagged, lengths that pile up at a limit."""
    last_N = np.append(np.flatnonzero(np.diff(batch.traj_of_S)), len(batch.traj_of_S) - 1)
    ended_N = batch.terminated_S[last_N] | batch.truncated_S[last_N]
    yield from _no_value(batch)
    yield from _unknown_end(batch, ended_N)
    steps_N = seg_count(batch.traj_of_S, n=len(batch)).astype(np.int64)
    yield from _piled(batch, steps_N, ~ended_N, "steps", SHORTEST_STEPS)
    if batch.has_ids:
        tokens_S = seg_count(batch.step_of_T, where=batch.sampled_T, n=len(batch.traj_of_S)).astype(np.int64)
        yield from _piled(batch, tokens_S[last_N], ~ended_N, "tokens in the last action", SHORTEST_TOKENS)


def _no_value(batch: Batch) -> Yields:
    bare = np.flatnonzero(batch.truncated_N & np.isnan(batch.final_value_N))
    if not len(bare):
        return
    truncated = int(np.count_nonzero(batch.truncated_N))
    has_values = batch.value_S is not None or batch.token_value_T is not None
    names = batch.names()
    yield Finding(
        "truncation/no-final-value",
        "warning" if has_values else "info",
        f"{len(bare)} of {count(truncated, 'truncated rollout')} have no value after the last action "
        f"({named((names[n] for n in bare), len(bare))}): value methods cannot bootstrap there and take the end for 0",
        "give Trajectory.final_value, the value of the state after the last action",
        {
            "rollouts": len(bare),
            "of": truncated,
            "share": len(bare) / len(batch),
            "has_values": has_values,
        },
        places(names[n] for n in bare),
    )


def _unknown_end(batch: Batch, ended_N: BoolArray) -> Yields:
    unknown = np.flatnonzero(~ended_N)
    if not len(unknown) or not ended_N.any():
        return
    names = batch.names()
    yield Finding(
        "truncation/end-unknown",
        "warning",
        f"{len(unknown)} of {count(len(batch), 'rollout')} are neither terminated nor truncated, the others are "
        f"({named((names[n] for n in unknown), len(unknown))}): they count as if the task had ended",
        "set Step.truncated on the last step of what a limit ended, Step.terminated where the task ended",
        {"rollouts": len(unknown), "of": len(batch), "share": len(unknown) / len(batch)},
        places(names[n] for n in unknown),
    )


def _piled(batch: Batch, length_N: IntArray, open_N: BoolArray, what: str, shortest: int) -> Yields:
    longest = int(length_N.max())
    at_limit = length_N == longest
    suspects = np.flatnonzero(at_limit & open_N)
    below = int(np.count_nonzero(length_N == longest - 1))
    near = int(np.bincount(length_N, minlength=longest)[max(0, longest - NEAR) : longest].max(initial=0))
    if longest < shortest or len(suspects) < LEAST or at_limit.all():
        return
    if int(np.count_nonzero(at_limit)) < RATIO * max(near, 1):
        return
    names = batch.names()
    yield Finding(
        "truncation/limit-suspected",
        "warning",
        f"{len(suspects)} of {count(len(batch), 'rollout')} stop at exactly {longest} {what}, the greatest number, and "
        f"{below} at one less, none of them flagged ({named((names[n] for n in suspects), len(suspects))}): "
        "this looks like a limit",
        "set Step.truncated on their last step, or Step.terminated where the task did end there",
        {
            "rollouts": len(suspects),
            "of": len(batch),
            "share": len(suspects) / len(batch),
            "limit": longest,
            "one_less": below,
            "counted": what,
        },
        places(names[n] for n in suspects),
    )
