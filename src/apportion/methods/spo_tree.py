"""SPO-tree: each segment of a grown tree gets the value of the node that it leads to, less that of its parent.

    V(leaf) = score,  V(node) = mean over its children,  A(edge) = V(child) - V(parent)

Use       on trees that `apportion.resources.grow_tree` samples (steps with parents), for long answers whose segments
          are to be compared with siblings; also on by_tree, for trees that were logged leaf by leaf.
Source    arXiv:2505.23564, section 3; AIFrameResearch/SPO, the tree episode generator.
Compared  by reading, and by the worked trees of the specification.
Deviates  1. Without spread among siblings ``scale="std"`` gives exact zeros and no epsilon is added; the code adds 1e-8
             (``epsilon``).
          2. ``baseline="loo"`` is the true leave-one-out. What the code calls rloo counts the child itself in the
             parent's mean ("parent", the default): (b-1)/b of it.
          3. Edges of `by_tree` appear in each rollout that shares them; ``copies="once"`` trains one of them, as the
             paper does. A grown tree holds each edge once.
          4. The probability mask is a transform of its own: `spo_tree | probability_mask`.
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.branching import EQUAL, VALUES, Branches, branches
from apportion.methods.groups import added, one_of
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import FloatArray, seg_std, seg_sum
from apportion.units import Units


@register(
    "spo_tree",
    unit="step",
    family="tree",
    reads=("reward_S",),
    source="arXiv:2505.23564",
    holds=("scale_equivariant", "shift_invariant", "local_to_group"),
)
def spo_tree(
    units: Units,
    *,
    value: str = "children",
    baseline: str = "parent",
    scale: str = "none",
    ddof: int = 0,
    epsilon: float = 0.0,
    prover: str = "none",
    prover_weight: float = 5.0,
    best_of: int = 4,
    drop_zero: bool = True,
    equal: str = "apart",
    copies: str = "each",
) -> Credit:
    """Credit each edge with its advantage over the siblings.

    Args:
        units: S units with parents. Reads reward_S, outcome_N (reward units), on by_tree the tokens.
        value: V of a node is the mean over its "children" (an early leaf counts like a sibling's subtree), or over the
            "leaves" below.
        baseline: "parent", or "loo", the mean of the other children.
        scale: "std" divides by the std over the children of the parent, "none" keeps reward units.
        ddof: of that std.
        epsilon: added to it, for parity.
        prover: "train" credits V(child) + prover_weight * the prover's advantage instead (the code's ``use_pav``);
            "none" does without. The prover samples ``best_of`` answers and keeps the best: 1 - (1 - V)^best_of, for
            values from 0 to 1. (The code can also filter by the sum of both advantages, which are of one sign: it keeps
            the edges that ``drop_zero`` keeps.)
        prover_weight: see ``prover``.
        best_of: see ``prover``.
        drop_zero: edges without advantage are not trained (`Credit.train_S`), nor are edges without tokens.
        equal: units are edges of their own ("apart"), or equal ones after equal prefixes are one ("merged"). Units of
            by_tree are copies and always merged.
        copies: "each" trains every copy of a merged edge, "once" the first.

    Returns:
        Credit in reward units (no unit when scaled); unknown without a scored leaf below.
    """
    one_of("spo_tree", VALUES, value=value)
    one_of("spo_tree", EQUAL, equal=equal)
    one_of("spo_tree", ("parent", "loo"), baseline=baseline)
    one_of("spo_tree", ("none", "std"), scale=scale)
    one_of("spo_tree", ("none", "train"), prover=prover)
    one_of("spo_tree", ("each", "once"), copies=copies)
    if best_of < 1:
        raise ConfigError(f"spo_tree: best_of is {best_of}; give a whole number from 1 on")
    tree = branches(units, equal="merged" if units.level == "tree" else equal, value=value)
    advantage_S = tree.change_S if baseline == "parent" else _leave_one_out(tree)
    if scale == "std":
        std_S = _spread(tree, ddof)
        advantage_S = np.where(std_S > 0, advantage_S, 0.0) / np.where(std_S > 0, std_S + epsilon, 1.0)
    parts: dict[str, FloatArray] = {}
    kept_S = advantage_S != 0
    if prover != "none":
        before_S, after_S = (1.0 - (1.0 - np.nan_to_num(v)) ** best_of for v in (tree.before_S, tree.after_S))
        change_S = np.where(tree.known_S, added([after_S, -before_S]), 0.0)
        parts = {"value": np.nan_to_num(tree.after_S), "prover": prover_weight * change_S}
        advantage_S = parts["value"] + parts["prover"]
    train_S = (units.tokens_S > 0) & (kept_S | (not drop_zero))
    if copies == "once":
        train_S &= tree.first_S
    notes = {**group_notes(units), "edges": int(np.count_nonzero(tree.counted_S))}
    known_S = tree.known_S
    return Credit(advantage_S, units, known_S=known_S, train_S=train_S | ~known_S, parts=parts, notes=notes)


def _leave_one_out(tree: Branches) -> FloatArray:
    """Each edge against the mean of the other children of its parent; 0 for an only child."""
    value_S = np.nan_to_num(tree.after_S)
    total_S = seg_sum(value_S, tree.node_S, where=tree.counted_S)[tree.node_S]
    others_S = np.maximum(tree.siblings_S - 1, 1)
    alone_S = ~tree.known_S | (tree.siblings_S < 2)
    return added([value_S, np.where(alone_S, -value_S, -(total_S - value_S) / others_S)])


def _spread(tree: Branches, ddof: int) -> FloatArray:
    """Std over the children of each edge's parent; 0 without spread."""
    return seg_std(np.nan_to_num(tree.after_S), tree.node_S, where=tree.counted_S, ddof=ddof)[tree.node_S]
