"""TreeRL: each branch by how it changes the value (local) plus the value it leads to (global), from leaves alone.

    A[s] = (V(after s) - V(before s)) + w V(after s)

V is the mean over the leaves below of R[leaf] - mean of the other leaves of the group.

Use       on by_tree, where sampled trajectories share prefixes, or on steps of trajectories that fork.
Source    arXiv:2506.11902; THUDM/TreeRL, openrlhf/trainer/ppo_utils.
Compared  by reading, with tree_node.py (`use_state_value_reward`) and the script's "sqrt" weighting.
Deviates  1. A branch that changes nothing has local credit 0; the code gives it the credit of the branch before
             (``inherit=True``).
          2. V(before s) stands behind the observation that came before s, whose own change is nobody's credit.
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import FloatArray, IntArray, centre, seg_sum
from apportion.units import PrefixTree, Units, leaves, prefix_tree, sum_below


@register(
    "tree_rl",
    unit="tree",
    family="tree",
    reads=("reward_S",),
    source="arXiv:2506.11902",
    holds=("scale_equivariant", "shift_invariant", "local_to_group"),
)
def tree_rl(
    units: Units,
    *,
    global_weight: float = 1.0,
    weighting: str = "mean",
    centred: bool = False,
    inherit: bool = False,
) -> Credit:
    """Credit each branch with its local and its global advantage.

    Args:
        units: S units, edges of the tree as a rule. Reads reward_S, outcome_N (reward units) and the token ids.
        global_weight: w above.
        weighting: "mean" of the leaves below; "sqrt" also divides it by the square root of their number, as the
            authors' script does.
        centred: True subtracts from the global part the mean of V over the nodes of the group's tree, weighted by
            their sampled tokens, each node once.
        inherit: True gives a unit whose local part is 0 the credit of its parent, for parity.

    Returns:
        Credit with the parts "local" and "global", reward units; units without a scored leaf below are unknown.
    """
    if weighting not in ("mean", "sqrt"):
        raise ConfigError(f"tree_rl: weighting is {weighting!r}; give 'mean' or 'sqrt'")
    leaf = leaves(units)
    x_L = centre(leaf.return_L, units.group_of_N[leaf.traj_of_L], where=leaf.known_L, leave_one_out=True)
    total_S, below_S = sum_below(units, leaf, x_L)
    power = 1.0 if weighting == "mean" else 1.5
    n = len(units.group_of_N)
    tree = prefix_tree(units.batch, units.valid_N)

    def on_nodes(x_N: FloatArray) -> FloatArray:
        return seg_sum(x_N[tree.traj_of_R], tree.node_R)[tree.node_R]

    lone_N = seg_sum(x_L, leaf.traj_of_L, where=leaf.known_L, n=n)
    number_N = seg_sum(np.ones(len(x_L)), leaf.traj_of_L, where=leaf.known_L, n=n)
    value_R = on_nodes(lone_N) / np.maximum(on_nodes(number_N), 1.0) ** power
    after_S, before_S = _around(units, tree, value_R, total_S / np.maximum(below_S, 1.0) ** power)

    local_S = after_S - before_S
    global_S = global_weight * after_S
    if centred:
        global_S -= global_weight * _mean_of_nodes(units, tree, value_R)[units.group_of_S]
    if inherit:
        for s in np.flatnonzero((local_S == 0.0) & (units.parent_S >= 0)).tolist():
            local_S[s], global_S[s] = local_S[units.parent_S[s]], global_S[units.parent_S[s]]
    notes = {**group_notes(units), "leaves": int(np.count_nonzero(leaf.known_L))}
    parts: dict[str, FloatArray] = {"local": local_S, "global": global_S}
    return Credit(local_S + global_S, units, known_S=below_S > 0, parts=parts, notes=notes)


def _around(units: Units, tree: PrefixTree, value_R: FloatArray, below_S: FloatArray) -> tuple[FloatArray, FloatArray]:
    """V after and before each unit: of the prefix where the trajectory has not forked yet, else of the leaves below."""
    own = np.flatnonzero(units.unit_of_T >= 0)
    last = np.full(len(units), -1, dtype=np.int64)
    last[units.unit_of_T[own]] = own
    first = np.full(len(units), -1, dtype=np.int64)
    first[units.unit_of_T[own][::-1]] = own[::-1]
    start_S = tree.start_N[units.traj_of_S]

    def value_at(token_S: IntArray) -> FloatArray:
        if not len(value_R):
            return np.zeros(len(token_S))
        inside = token_S >= start_S  # before it, all members are together and V is 0
        return np.where(inside, value_R[tree.run_of(np.maximum(token_S, start_S))], 0.0)

    parent_S = np.maximum(units.parent_S, 0)
    after_S, before_S = value_at(last), value_at(first - 1)
    forked_S = last >= tree.fork_N[units.traj_of_S]
    after_S = np.where(forked_S, below_S, after_S)
    before_S = np.where(forked_S, np.where(units.parent_S >= 0, after_S[parent_S], 0.0), before_S)
    for s in np.flatnonzero(last < 0).tolist():  # nothing sampled, nothing changed
        after_S[s] = before_S[s] = after_S[units.parent_S[s]] if units.parent_S[s] >= 0 else 0.0
    return after_S, before_S


def _mean_of_nodes(units: Units, tree: PrefixTree, value_R: FloatArray) -> FloatArray:
    """Token-weighted mean of V over the nodes of each group's tree."""
    own_T = np.concatenate(([0], np.cumsum(units.batch.sampled_T)))
    valid = np.flatnonzero(units.valid_N[tree.traj_of_R])
    once = valid[np.unique(tree.node_R[valid], return_index=True)[1]]
    size = (own_T[tree.stop_R] - own_T[tree.start_R])[once].astype(np.float64)
    group, groups = units.group_of_N[tree.traj_of_R[once]], len(units.batch.group_names)
    return seg_sum(size * value_R[once], group, n=groups) / np.maximum(seg_sum(size, group, n=groups), 1.0)
