"""The planning curve at the sizes of these rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apportion.check.planning import ASSUMPTIONS, optimal_window, resolution_risk
from apportion.check.registry import measure
from apportion.check.texts import sampled_sizes
from apportion.data import Batch

BETA0 = 50.0
"""The guess that the curve is drawn with where nobody gives another."""


@measure("resolution", on="batch")
def resolution(batch: Batch) -> Mapping[str, Any]:
    """The variance/bias planning curve D(w) for windows of w tokens, with everything it assumes."""
    return curve(batch, BETA0)


def curve(batch: Batch, beta0: float) -> Mapping[str, Any]:
    """The curve at the sizes of these rollouts, for a guess of beta0; empty where they are too small.

    T is the median of the sampled tokens of a rollout, w_env that of an action; the variance of the reward is the
    outcomes' inside their groups, that of the score is 1.
    """
    tokens = float(np.median(sampled_sizes(batch)))
    per_step = np.bincount(batch.step_of_T[batch.sampled_T], minlength=len(batch.traj_of_S))
    env = float(np.median(per_step[per_step > 0])) if (per_step > 0).any() else 0.0
    if tokens < 2 or env < 1:
        return {}
    env = min(env, tokens)
    groups = len(batch.group_names)
    valid = batch.valid_N
    size = np.maximum(np.bincount(batch.group_of_N[valid], minlength=groups), 1)
    mean = np.bincount(batch.group_of_N[valid], weights=batch.outcome_N[valid], minlength=groups) / size
    spread = float(np.mean((batch.outcome_N - mean[batch.group_of_N])[valid] ** 2)) if valid.any() else 0.0
    variance = spread if spread > 0 else 1.0
    best = optimal_window(tokens, env, beta0, var_r=variance)
    windows = sorted({1.0, best, env, tokens} | {min(float(round(x)), tokens) for x in np.geomspace(1, tokens, 6)})
    return {
        "tokens": tokens,
        "env_window": env,
        "beta0": beta0,
        "var_r": variance,
        "var_u": 1.0,
        "best_window": best,
        "curve": [[w, resolution_risk(tokens, w, env, beta0, var_r=variance)] for w in windows],
        "assumptions": list(ASSUMPTIONS),
    }
