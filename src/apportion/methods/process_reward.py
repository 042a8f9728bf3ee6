"""What methods on process rewards share: a baseline from the other rollouts, scaling, sums from the start."""

from __future__ import annotations

import numpy as np

from apportion.errors import ConfigError
from apportion.numerics import Array, FloatArray, seg_count, seg_mean, seg_sum, to_go
from apportion.units import Units


def less_the_others(reward_S: FloatArray, units: Units, form: str) -> FloatArray:
    """Rewards minus what the other rollouts of the group had on average, a rollout counting by its mean unit.

    Units without tokens have no reward and no vote.

        "exact"   r[s] - sum_{j != i} mean_j / (n - 1)
        "code"    r[s] n / (n - 1) - sum_j mean_j / (n - 1)          (PRIME: its own mean is in the sum)

    0 in a group of one, and for rollouts that take no part.
    """
    n_traj, says_S = len(units.group_of_N), units.tokens_S > 0
    there_N = units.valid_N & (seg_count(units.traj_of_S, where=says_S, n=n_traj) > 0)
    mean_N = seg_mean(reward_S, units.traj_of_S, where=says_S, n=n_traj)
    n_N = seg_count(units.group_of_N, where=there_N)[units.group_of_N]
    total_N = seg_sum(mean_N, units.group_of_N, where=there_N)[units.group_of_N]
    others = np.maximum(n_N - 1, 1)
    if form == "exact":
        out = reward_S - ((total_N - mean_N) / others)[units.traj_of_S]
    else:
        out = reward_S * (n_N / others)[units.traj_of_S] - (total_N / others)[units.traj_of_S]
    return np.where(says_S & (there_N & (n_N > 1))[units.traj_of_S], out, 0.0)


def largest_return(reward_S: FloatArray, units: Units) -> float:
    """Largest magnitude of a sum to the end over all rollouts that take part; 0 where there is none."""
    returns = np.abs(to_go(reward_S, units.traj_of_S))
    return float(returns[units.valid_S].max(initial=0.0))


def from_start(x_S: Array, units: Units) -> FloatArray:
    """Sum from the trajectory's first unit up to and with each one."""
    return to_go(x_S[::-1], units.traj_of_S[::-1])[::-1]


def one_of(who: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise unless the value is a choice."""
    if value not in choices:
        raise ConfigError(f"{who}: {name} is {value!r}; give {' or '.join(map(repr, choices))}")
