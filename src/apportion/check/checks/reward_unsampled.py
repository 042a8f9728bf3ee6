"""Rewards that land where the policy wrote nothing."""

from __future__ import annotations

import numpy as np

from apportion.check.findings import Finding, Yields, count, places
from apportion.check.moves import step_name
from apportion.check.registry import register
from apportion.data import Batch
from apportion.numerics import seg_count

MANY = 0.01
"""Share of the reward, in absolute size, from which on it is a warning."""


@register("reward-unsampled", on="batch", cheap=True)
def reward_unsampled(batch: Batch) -> Yields:
    """Rewards on steps of which the policy sampled no token: on tool output, padding or an empty response."""
    size_S = seg_count(batch.step_of_T, where=batch.sampled_T, n=len(batch.traj_of_S))
    wrong = np.flatnonzero((size_S == 0) & batch.scored_S & (batch.reward_S != 0))
    if not len(wrong):
        return
    mass, lost = float(np.abs(batch.reward_S).sum()), float(np.abs(batch.reward_S[wrong]).sum())
    yield Finding(
        "reward-unsampled",
        "warning" if lost >= MANY * mass else "info",
        f"{count(len(wrong), 'step')} with a reward have no sampled token ({step_name(batch, int(wrong[0]))}: "
        f"{batch.reward_S[wrong[0]]:g}); {lost / mass:.0%} of the reward is earned by nobody, or goes to the next "
        "action",
        "put a reward on the action that earned it; an index of -1, one past the end, or padding taken for text are "
        "the usual reasons",
        {"steps": len(wrong), "reward": lost, "of_reward": mass, "share": lost / mass},
        places(step_name(batch, int(s)) for s in wrong),
    )
