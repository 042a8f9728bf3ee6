"""GDPO: several rewards, each normalised in its group before they are added.

    A[i] = sum_k w_k (R_k[i] - mean_group R_k) / std_group R_k

Use       with rewards of different kinds: in a sum of raw rewards the one with the widest spread wins, and members
          that differ in one reward look the same as members that differ in several.
Source    arXiv:2601.05242.
Compared  on recorded numbers, with verl `compute_gdpo_outcome_advantage` and TRL ``normalize_then_sum``.
Deviates  1. Whitening over the batch, the paper's last step, is ``whiten="token"`` or a transform: ``gdpo | whiten``.
          2. No epsilon; verl adds 1e-6 to each std and 1e-8 to the last variance, TRL 1e-4 (``epsilon``, and
             ``whiten_epsilon``, or behind the bar, over rollouts as TRL does, ``whiten(over='unit', epsilon=1e-4)``).
          3. A group of one gets 0; verl keeps the raw reward (``group_of_one="raw"``).
          4. A reward that was not given is no 0: its member leaves that statistic and the sum.
"""

from collections.abc import Sequence

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.groups import LONE, added, compared, one_of, whitened
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.units import Units


@register(
    "gdpo",
    unit="episode",
    family="monte-carlo",
    reads=("reward_S", "outcome_parts"),
    source="arXiv:2601.05242",
    holds=("shift_invariant", "local_to_group", "zero_mean_per_group"),
    wide={"whiten": ("token", "unit")},
)
def gdpo(
    units: Units,
    *,
    parts: Sequence[str] = (),
    weights: Sequence[float] = (),
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
    group_of_one: str = "zero",
    whiten: str = "none",
    whiten_epsilon: float = 0.0,
) -> Credit:
    """Credit every unit of a trajectory with its place in its group, reward by reward.

    Args:
        units: any units of N trajectories. Reads outcome_parts (Trajectory.outcomes), reward units.
        parts: names of the rewards; default all of them, by name.
        weights: of each; default 1.
        scale: "std" divides each reward by its std in the group; "none" only centres.
        ddof: of each std, the whitening's too.
        epsilon: added to the std of each reward.
        group_of_one: "zero", or "raw" for a group of one's own reward.
        whiten: "none"; "token" or "unit" normalises the sum over the batch, weighing units by their tokens or alike.
        whiten_epsilon: added to the variance of that sum.

    Returns:
        Credit with one part for each reward. Members without any of the rewards are unknown.
    """
    one_of("gdpo", ("std", "none"), scale=scale)
    one_of("gdpo", LONE, group_of_one=group_of_one)
    one_of("gdpo", ("none", "token", "unit"), whiten=whiten)
    names = tuple(parts) or tuple(sorted(units.outcome_parts))
    units.require("gdpo", *(f"outcome_parts:{name}" for name in names))
    if weights and len(weights) != len(names):
        raise ConfigError(f"gdpo: {len(weights)} weights for the parts {', '.join(names)}; give one for each")
    out, missing = {}, 0
    known_N = np.zeros(len(units.group_of_N), dtype=bool)
    for name, weight in zip(names, weights or [1.0] * len(names), strict=True):
        reward_N = units.outcome_parts[name]
        told_N = units.valid_N & np.isfinite(reward_N)
        missing += int(np.count_nonzero(units.valid_N & ~told_N))
        known_N |= told_N
        advantage_N = compared(
            np.where(told_N, reward_N, 0.0),
            units.group_of_N,
            where=told_N,
            scale=scale,
            ddof=ddof,
            epsilon=epsilon,
            group_of_one=group_of_one,
        )
        out[name] = weight * advantage_N[units.traj_of_S]
    known_S = known_N[units.traj_of_S]
    advantage_S = added(list(out.values()))
    notes: dict[str, int | float | str] = {**group_notes(units)}
    if missing:
        notes["missing_parts"] = missing
    if whiten != "none":
        weight_S = np.where(known_S, units.tokens_S if whiten == "token" else 1, 0)
        normal_S, mean, std = whitened(advantage_S, weight_S, ddof=ddof, epsilon=whiten_epsilon)
        spread = 1.0 / std if normal_S.any() else 0.0
        out = {name: part * spread for name, part in out.items()}
        out["whiten"] = np.full(len(units), -mean * spread)
        advantage_S = (advantage_S - mean) * spread
        notes["normalised_over"] = whiten
    return Credit(advantage_S, units, known_S=known_S, parts=out, notes=notes)
