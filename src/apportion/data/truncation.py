"""What a rollout that a limit cut off counts as, before anything is compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from apportion.data.batch import Batch
from apportion.data.trajectory import Trajectory
from apportion.errors import ConfigError, DataError

POLICIES = ("keep", "penalty", "exclude")


def on_truncated(batch: Batch, policy: str, *, penalty: float = 0.0) -> Batch:
    """The same rollouts with another score for those that a limit cut off (`Batch.truncated_N`).

        keep      as it was scored; a method that bootstraps does so with ``final_value``
        penalty   the whole return is ``penalty``, scored or not; nothing bootstraps, the others are compared with it
        exclude   unscored: outside every statistic, its credit unknown

    A fourth policy keeps the score, so that the others are compared with it, and trains none of its tokens: that is the
    transform ``drop_truncated``, written behind a method. TRL's ``mask_truncated_completions`` is that one, the 0 that
    the code of SPO and VinePPO gives is "penalty".

    Args:
        batch: the rollouts.
        policy: see above.
        penalty: return of a rollout that was cut off, reward units. Named parts of rewards stay as they are.

    Raises:
        ConfigError: another policy. DataError: "penalty" for a rollout that forks; its branches have returns of their
            own, so give each its reward.
    """
    if policy == "mask":
        raise ConfigError("on_truncated: masking is done behind the method; write e.g. 'grpo | drop_truncated'")
    if policy not in POLICIES:
        raise ConfigError(f"on_truncated: policy is {policy!r}; give one of {', '.join(map(repr, POLICIES))}")
    if not np.isfinite(penalty):
        raise ConfigError(f"on_truncated: penalty is {penalty}; give a finite number")
    if policy == "keep" or not batch.truncated_N.any():
        return batch
    score = float(penalty) if policy == "penalty" else None
    rollouts = list(batch.trajectories)
    for n in np.flatnonzero(batch.truncated_N).tolist():
        if score is not None and any(step.parent not in (None, s - 1) for s, step in enumerate(rollouts[n].steps)):
            raise DataError(
                f"trajectory {n} forks, so one penalty says nothing of its branches; give the cut-off ones their reward"
            )
        rollouts[n] = _scored(rollouts[n], score)
    return Batch.from_trajectories(rollouts)


def _scored(trajectory: Trajectory, score: float | None) -> Trajectory:
    steps = tuple(replace(step, reward=None) for step in trajectory.steps)
    return replace(trajectory, steps=steps, outcome=score, final_value=None)
