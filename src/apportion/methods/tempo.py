"""TEMPO: GRPO plus, where a sibling parts, the change of the prefix's value; the group's own prefix tree is the critic.

    A[s] = ((R[i] - mean_group R) + w (V(prefix with s) - V(prefix before s))) / std_group R

V(prefix) is the mean outcome of the group's members that start with it, the own one included.

Use       when members share long prefixes (greedy starts, forked rollouts); where they part at once it is GRPO but for
          the first token. With by_token, as published; coarser units add up the changes at their tokens.
Source    arXiv:2509.18314 (TEMPO), as in fatebreaker/tempo verl/trainer/ppo/core_algos.py.
Compared  by reading, with that `compute_tempo_outcome_advantage`.
Deviates  1. The walk goes on behind observations, whose own change is nobody's credit; the code stops at the first
             (``observations="stop"``).
          2. A group of one gets 0; the code NaN.
          3. scale="std" adds no epsilon; the code adds 1e-6 (``epsilon``).
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import BoolArray, FloatArray, IntArray, centre, seg_std, seg_sum
from apportion.numerics.prefix import prefix_changes
from apportion.units import PrefixTree, Units, prefix_tree


@register(
    "tempo",
    unit="token",
    family="tree",
    reads=("reward_S",),
    source="arXiv:2509.18314",
    holds=("shift_invariant", "local_to_group"),
    chain=True,
)
def tempo(
    units: Units,
    *,
    td_weight: float = 1.0,
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
    baseline: str = "self",
    min_members: int = 1,
    observations: str = "walk",
    td_std: str = "reward",
) -> Credit:
    """Credit every unit with its trajectory's place in the group, and with what its tokens decide.

    Args:
        units: S units, tokens as a rule. Reads outcome_N (reward units) and the token ids of the batch.
        td_weight: w above; 0 leaves GRPO.
        scale: "std" divides by the group's std (no unit), "none" keeps reward units.
        ddof: of that std.
        epsilon: added to that std, for parity.
        baseline: "self" counts the member itself in every mean, as published; "others" leaves it out of all, and a
            prefix that nobody else has keeps the value it had when the last sibling parted.
        min_members: prefixes with fewer members count for nothing; 2 drops the step to one's own outcome at the token
            where the last sibling parts.
        observations: "walk" through tokens that the policy did not sample, or "stop" at the first of them.
        td_std: what the changes are divided by with scale="std": "reward", the std of the outcomes, as published; "td",
            their own std in the group, over the sampled tokens at which the members of a prefix change (every valid
            member counts its own copy), so that td_weight compares two quantities of one size.

    Returns:
        Credit with the parts "group" and "prefix".

    Raises:
        ConfigError: an unknown option.
    """
    for name, value, known in (
        ("scale", scale, ("std", "none")),
        ("baseline", baseline, ("self", "others")),
        ("observations", observations, ("walk", "stop")),
        ("td_std", td_std, ("reward", "td")),
    ):
        if value not in known:
            raise ConfigError(f"tempo: {name} is {value!r}; give {known[0]!r} or {known[1]!r}")
    valid_N, group_of_N, groups = units.valid_N, units.group_of_N, len(units.batch.group_names)
    std_G = seg_std(units.outcome_N, group_of_N, ddof=ddof, where=valid_N, n=groups)
    divisor_G = np.where(std_G > 0, std_G + epsilon if scale == "std" else 1.0, np.inf)
    if baseline == "self":
        group_N = centre(units.outcome_N, group_of_N, scale=scale, ddof=ddof, epsilon=epsilon, where=valid_N)
    else:
        group_N = centre(units.outcome_N, group_of_N, where=valid_N, leave_one_out=True) / divisor_G[group_of_N]

    tree = prefix_tree(units.batch, valid_N)
    change_R = prefix_changes(tree.runs, units.outcome_N, group_of_N, where=valid_N, leave_one_out=baseline == "others")
    change_R[tree.members_R < min_members] = 0.0
    if observations == "stop":
        change_R[_after_observation(units, tree)] = 0.0
    unit_R = units.unit_of_T[tree.start_R]
    own_R, group_R = unit_R >= 0, group_of_N[tree.traj_of_R]
    if td_std == "td" and scale == "std":
        std_G = seg_std(change_R, group_R, ddof=ddof, where=own_R & valid_N[tree.traj_of_R], n=groups)
        divisor_G = np.where(std_G > 0, std_G + epsilon, np.inf)
    change_R /= divisor_G[group_R]
    prefix_S = td_weight * seg_sum(change_R[own_R], unit_R[own_R], n=len(units))

    group_S = group_N[units.traj_of_S]
    parts: dict[str, FloatArray] = {"group": group_S, "prefix": prefix_S}
    notes = {**group_notes(units), **_notes(units, tree, ~own_R & (change_R != 0.0))}
    return Credit(group_S + prefix_S, units, parts=parts, notes=notes)


def _after_observation(units: Units, tree: PrefixTree) -> BoolArray:
    """Runs that start behind the first token that the policy did not sample."""
    gap = np.flatnonzero(~units.batch.sampled_T)
    gap = gap[gap >= tree.start_N[units.batch.traj_of_T[gap]]]
    first_N = np.full(len(units.group_of_N), len(units.unit_of_T), dtype=np.int64)
    np.minimum.at(first_N, units.batch.traj_of_T[gap], gap)
    behind: BoolArray = tree.start_R >= first_N[tree.traj_of_R]
    return behind


def _notes(units: Units, tree: PrefixTree, parts_R: BoolArray) -> dict[str, int | float]:
    """How much of what was sampled is shared, and how often it was an observation that parted the members."""
    own_T = np.concatenate(([0], np.cumsum(units.batch.sampled_T)))
    size_R: IntArray = own_T[tree.stop_R] - own_T[tree.start_R]
    valid_R = units.valid_N[tree.traj_of_R]
    total = int(size_R[valid_R].sum())
    shared = int(size_R[valid_R & (tree.members_R > 1)].sum())
    notes: dict[str, int | float] = {"shared_tokens": shared / total if total else 0.0}
    if parts_R.any():
        notes["parted_by_observation"] = int(np.count_nonzero(parts_R))
    return notes
