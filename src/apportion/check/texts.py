"""The policy's own words: what the checks of texts read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apportion.check.moves import steps_of
from apportion.check.sampling import evenly
from apportion.data import Batch
from apportion.numerics import Array, FloatArray, IntArray
from apportion.numerics.repetition import repetition

SYMBOLS = 2_000_000
"""Characters or ids that the repetition score looks at; of larger batches, rollouts spread evenly."""
SHORT_TEXT, SHORT_IDS = 120, 32
"""Actions below these sizes are not scored: in a few words everything repeats."""


def answers(batch: Batch) -> list[str | None]:
    """The text of each rollout's last action that has one."""
    return [next((step.action for step in reversed(t.steps) if step.action), None) for t in batch.trajectories]


def sampled_sizes(batch: Batch) -> IntArray:
    """Sampled tokens of each rollout."""
    return np.bincount(batch.traj_of_T[batch.sampled_T], minlength=len(batch)).astype(np.int64)


def repetition_of(batch: Batch) -> tuple[IntArray, FloatArray, IntArray]:
    """(rollouts looked at, the largest repetition score of an action of each, the step it is in).

    Scored are actions that are long enough, by characters where the text is known, else by ids. A rollout whose actions
    are short has the score 0.
    """
    size = int(np.count_nonzero(batch.sampled_T)) * (5 if any(s.action for s in batch.trajectories[0].steps) else 1)
    chosen = evenly(len(batch), max(1, len(batch) * SYMBOLS // max(size, SYMBOLS)))
    steps = steps_of(batch)
    first = np.searchsorted(batch.traj_of_S, np.arange(len(batch) + 1))
    at: list[int] = []
    said: list[str | Array] = []
    for n in chosen.tolist():
        for s in range(int(first[n]), int(first[n + 1])):
            action, ids = steps[s].action, steps[s].ids
            if action:
                if len(action) >= SHORT_TEXT:
                    at.append(s)
                    said.append(action)
            elif ids is not None and len(ids) >= SHORT_IDS:
                at.append(s)
                said.append(np.asarray(ids))
    score_N, step_N = np.zeros(len(batch)), first[:-1].astype(np.int64).copy()
    for s, score in zip(at, repetition(said).tolist(), strict=True):
        n = int(batch.traj_of_S[s])
        if score > score_N[n]:
            score_N[n], step_N[n] = score, s
    return chosen, score_N[chosen], step_N[chosen]


def words_of(texts: Sequence[str | None]) -> int:
    """Words of all texts together."""
    return sum(len(text.split()) for text in texts if text)
