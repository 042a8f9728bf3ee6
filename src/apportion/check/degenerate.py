"""How degenerate the responses of a batch are, in numbers: the monitors of PURE, split by what the verifier says.

A response is all that the policy wrote in a rollout. Its repetition score is over characters, over ids where no text is
known, and 0 below the sizes of `texts`: in a few words everything repeats.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from apportion.check.sampling import evenly
from apportion.check.texts import SHORT_IDS, SHORT_TEXT, SYMBOLS, sampled_sizes
from apportion.data import Batch, Trajectory
from apportion.errors import DataError
from apportion.numerics import Array, BoolArray, FloatArray, seg_count, seg_mean
from apportion.numerics.repetition import repetition
from apportion.units import Units, has_process_rewards, process_rewards, verdicts

HIGH = 0.2
"""Repetition score above which a response repeats itself (PURE); two verbatim copies are above it."""
FITTED = "prm"
"""Part of the rewards that a fitted process reward model fills."""


class Degenerate(NamedTuple):
    """Numbers of one batch.

    Attributes:
        shares: share of rollouts by name: ``clip_rate`` were cut off at the limit, ``repetitive`` have a score above
            `HIGH`, ``praised_failures`` are wrong though no step of theirs has a process reward of ``good`` or less;
            ``clip_rate_right`` and ``repetitive_right`` among those that the verifier calls right (PURE's
            pseudo-positives), ``_wrong`` among the others. What cannot be told is left out.
        means: over rollouts, by name: ``repetition``, ``steps``, ``tokens``, ``process`` (mean process reward of a
            scored step), ``verdict`` (share that is right).
        of: rollouts that each share is over.
    """

    shares: dict[str, float]
    means: dict[str, float]
    of: dict[str, int]


def degenerate(
    units: Units, *, limit: int | None = None, process: str | None = None, success: float = 0.5, good: float = 0.0
) -> Degenerate:
    """Count.

    Args:
        units: a cut of the batch by steps, segments or tokens.
        limit: sampled tokens of one action from which on it was cut off; None = only what is marked as truncated.
        process: part of the rewards that holds process rewards, "" for the rewards themselves; None = "prm" where there
            is such a part, else the rewards themselves.
        success: outcomes above it are right. good: process rewards above it are of good steps.
    """
    batch = units.batch
    part = process if process is not None else (FITTED if has_process_rewards(units, FITTED) else "")
    told_N = units.valid_N if part else verdicts(units)  # without a part, outcomes may be sums of process rewards
    told_N = told_N & batch.has_tokens_N
    seen_N = batch.has_tokens_N & ~batch.failed_N
    clipped_N = clipped(batch, limit)
    chosen, score = response_scores(batch)
    looked_N = np.zeros(len(batch), dtype=bool)
    looked_N[chosen] = True
    high_N = np.zeros(len(batch), dtype=bool)
    high_N[chosen[score > HIGH]] = True
    right_N = told_N & (batch.outcome_N > success)
    wrong_N = told_N & ~right_N

    shares: dict[str, float] = {}
    of: dict[str, int] = {}

    def share(name: str, of_N: BoolArray, among_N: BoolArray) -> None:
        if among_N.any():
            shares[name], of[name] = float(of_N[among_N].mean()), int(among_N.sum())

    share("clip_rate", clipped_N, seen_N)
    share("repetitive", high_N, seen_N & looked_N)
    for name, among_N in (("right", right_N), ("wrong", wrong_N)):
        share(f"clip_rate_{name}", clipped_N, among_N)
        share(f"repetitive_{name}", high_N, among_N & looked_N)
    means = {
        "repetition": float(score.mean()) if len(score) else 0.0,
        "steps": float(np.bincount(batch.traj_of_S, minlength=len(batch)).mean()),
        "tokens": float(sampled_sizes(batch).mean()),
    }
    if told_N.any():
        means["verdict"] = float(right_N[told_N].mean())
    reward_S = _rewards(units, part)
    if reward_S is not None:
        scored_S = np.isfinite(reward_S)
        n = len(batch)
        mean_N = seg_mean(np.where(scored_S, reward_S, 0.0), units.traj_of_S, where=scored_S, n=n)
        scored_N = seg_count(units.traj_of_S, where=scored_S, n=n) > 0
        bad_N = seg_count(units.traj_of_S, where=scored_S & ~(reward_S > good), n=n) > 0
        means["process"] = float(mean_N[scored_N].mean())
        share("praised_failures", wrong_N & ~bad_N, told_N & scored_N)
    return Degenerate(shares, means, of)


def clipped(batch: Batch, limit: int | None = None) -> BoolArray:
    """Rollouts that a limit cut off: marked as truncated, or with an action of so many sampled tokens. (N,)"""
    out: BoolArray = batch.truncated_N.copy()
    if limit is not None:
        size_S = np.bincount(batch.step_of_T[batch.sampled_T], minlength=len(batch.traj_of_S))
        out[batch.traj_of_S[size_S >= limit]] = True
    return out


def response_scores(batch: Batch) -> tuple[Array, FloatArray]:
    """Rollouts that were looked at (all, up to `SYMBOLS` characters), and the repetition score of their responses."""
    tokens = int(np.count_nonzero(batch.sampled_T))
    texts = any(s.action for s in batch.trajectories[0].steps)
    size = tokens * (5 if texts else 1)
    chosen = evenly(len(batch), max(1, len(batch) * SYMBOLS // max(size, SYMBOLS)))
    said = [_response(batch.trajectories[n]) for n in chosen.tolist()]
    score = np.zeros(len(chosen))
    long = [k for k, one in enumerate(said) if len(one) >= (SHORT_TEXT if isinstance(one, str) else SHORT_IDS)]
    score[long] = repetition([said[k] for k in long])
    return chosen, score


def _response(rollout: Trajectory) -> str | Array:
    """All that the policy wrote: text where every step has it, else ids."""
    texts = [step.action for step in rollout.steps]
    if all(text is not None for text in texts):
        return "\n".join(text for text in texts if text)
    ids = [np.asarray(step.ids) for step in rollout.steps if step.ids is not None and len(step.ids)]
    return np.concatenate(ids) if ids else ""


def _rewards(units: Units, part: str) -> FloatArray | None:
    """Process reward of each unit, NaN where it has none; None where no unit has one."""
    try:
        reward_S = process_rewards(units, part)
    except DataError:  # nobody fitted one; the other numbers are worth having all the same
        return None
    return reward_S if np.isfinite(reward_S).any() else None
