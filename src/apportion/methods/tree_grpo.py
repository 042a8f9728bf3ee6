"""Tree-GRPO: each leaf against all leaves of its task, plus against the leaves of its own tree.

    A[leaf] = z(R[leaf] over the group's leaves) + z(R[leaf] over its tree's leaves)        z(x) = (x - mean) / std
    A[s]    = mean of A over the leaves below s

Use       with rollouts that were branched on purpose; a trajectory that forks (`Step.parent`) is a tree, and its shared
          steps are credited once. Without forks it is GRPO.
Source    Tree-GRPO, as in AMAP-ML/Tree-GRPO.
Compared  by reading; ``epsilon=1e-6, group_of_one="raw"`` reproduces its numbers.
Deviates  1. A leaf alone in its tree (or its task) gets 0 there, in the code its raw return (``group_of_one="raw"``);
             no epsilon is added to the std, the code adds 1e-6 (``epsilon``).
          2. A step that several leaves share has their mean once; the code trains it once for every leaf.
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.groups import LONE, compared, one_of
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import FloatArray, IntArray, labels, seg_count
from apportion.units import Units, leaves, prefix_tree, sum_below


@register(
    "tree_grpo",
    unit="step",
    family="tree",
    reads=("reward_S",),
    source="Tree-GRPO, AMAP-ML/Tree-GRPO",
    holds=("shift_invariant", "local_to_group", "zero_mean_per_group"),
)
def tree_grpo(
    units: Units,
    *,
    tree: str = "trajectory",
    scale: str = "std",
    ddof: int = 1,
    epsilon: float = 0.0,
    group_of_one: str = "zero",
) -> Credit:
    """Credit each unit with the mean place of the leaves below it.

    Args:
        units: S units with parents. Reads reward_S, outcome_N (reward units): a branch has the rewards along its path,
            a trajectory that does not fork has its outcome.
        tree: what one tree is: a "trajectory" with its forks, or the trajectories of a group that share their whole
            "first_unit", token by token, for trees that were logged leaf by leaf.
        scale: "std" divides both comparisons by their std (no unit), "none" keeps reward units.
        ddof: of the std.
        epsilon: added to the std, for parity.
        group_of_one: what a leaf gets where it is the only one, "zero" or its "raw" return, for parity.

    Returns:
        Credit with the parts "group" and "tree"; units without a scored leaf below are unknown.
    """
    if scale not in ("std", "none"):
        raise ConfigError(f"tree_grpo: scale is {scale!r}; give 'std' or 'none'")
    if tree not in ("trajectory", "first_unit"):
        raise ConfigError(f"tree_grpo: tree is {tree!r}; give 'trajectory' or 'first_unit'")
    one_of("tree_grpo", LONE, group_of_one=group_of_one)
    leaf = leaves(units)
    tree_N = np.arange(len(units.group_of_N)) if tree == "trajectory" else _by_first_unit(units)
    parts: dict[str, FloatArray] = {}
    for name, set_L in (("group", units.group_of_N[leaf.traj_of_L]), ("tree", tree_N[leaf.traj_of_L])):
        place_L = compared(
            leaf.return_L,
            set_L,
            where=leaf.known_L,
            scale=scale,
            ddof=ddof,
            epsilon=epsilon,
            group_of_one=group_of_one,
        )
        total_S, below_S = sum_below(units, leaf, place_L)
        parts[name] = total_S / np.maximum(below_S, 1)
    many = seg_count(tree_N[leaf.traj_of_L], where=leaf.known_L)
    notes = {**group_notes(units), "leaves": int(np.count_nonzero(leaf.known_L)), "trees": int(np.count_nonzero(many))}
    return Credit(parts["group"] + parts["tree"], units, known_S=below_S > 0, parts=parts, notes=notes)


def _by_first_unit(units: Units) -> IntArray:
    """The tree of each trajectory: that of all who share its tokens up to the end of its first unit."""
    grown = prefix_tree(units.batch, units.valid_N)
    own = np.flatnonzero(units.unit_of_T >= 0)[::-1]
    unit, traj = units.unit_of_T[own], units.batch.traj_of_T[own]
    first_N = np.full(len(units.group_of_N), -1, dtype=np.int64)
    first_N[traj] = unit  # reversed order: the unit of the first token stays
    end_N = np.full(len(units.group_of_N), -1, dtype=np.int64)
    mine = first_N[traj] == unit
    end_N[traj[mine][::-1]] = own[mine][::-1]
    node_N = np.where(end_N >= 0, grown.node_R[grown.run_of(np.maximum(end_N, 0))], -1 - np.arange(len(end_N)))
    return labels(node_N)
