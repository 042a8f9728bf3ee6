"""CARL: on a tree of forked rollouts, each choice gets what it changed, and is trained where there was a choice.

    V(leaf) = return,  V(node) = mean over its children,  A(node -> child) = V(child) - V(node)
    trained where the node has more than one child

Use       after `apportion.resources.fork`, which spends rollouts where the policy hesitated most. Asks nothing itself.
Source    arXiv:2512.04949 (v3), by a transcription of its equations.
Compared  not: the announced code was not to be found. By the worked tree of the specification.
Deviates  1. The same choice followed by different observations is one child with the mean of what followed; for the
             paper's deterministic environments that makes no difference.
          2. Equal choices from one state are one child (``equal="merged"``), as states are told apart by exact prefix;
             ``"apart"`` counts each sample, which keeps V unbiased where choices repeat.
          3. The paper is ambiguous about choices of the first phase that were never forked; here children alone decide.
"""

import numpy as np

from apportion.credit import Credit
from apportion.methods.branching import EQUAL, VALUES, branches
from apportion.methods.groups import one_of
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.units import Units


@register(
    "carl",
    unit="step",
    family="tree",
    reads=("reward_S",),
    source="arXiv:2512.04949",
    holds=("scale_equivariant", "shift_invariant", "local_to_group"),
)
def carl(units: Units, *, equal: str = "merged", value: str = "children") -> Credit:
    """Credit each choice with the change of value, and drop those without alternative.

    Args:
        units: S units of rollouts that share prefixes or fork (`Step.parent`): steps, or edges of `by_tree`. Reads
            reward_S, outcome_N (reward units) and the tokens.
        equal: equal choices after equal prefixes are one child ("merged"), or every sample is ("apart").
        value: V is the mean over "children", or over the "leaves" below (which the paper calls biased).

    Returns:
        Credit in reward units. Dropped (`Credit.train_S`): units whose state has one child. Known zeros: forks whose
        branches did equally well. Unknown: units without a scored leaf below.
    """
    one_of("carl", EQUAL, equal=equal)
    one_of("carl", VALUES, value=value)
    tree = branches(units, equal=equal, value=value)
    critical_S = tree.siblings_S > 1
    alone = int(np.count_nonzero(tree.known_S & ~critical_S))
    notes = {**group_notes(units), **({"units_without_alternative": alone} if alone else {})}
    return Credit(tree.change_S, units, known_S=tree.known_S, train_S=critical_S | ~tree.known_S, notes=notes)
