"""Critical only: train where more than one way on was tried; every other unit is dropped (CARL's gate).

    keep[s]  <=>  the state that s acts in has more than one child

Use       after a credit on a tree of rollouts, in which most units had no alternative to be compared with.
Source    arXiv:2512.04949 (updates use only edges whose source has more than one child).
Compared  not: the announced code was not to be found. On the worked tree of the specification.
Deviates  1. Only children with known credit count: one that broke or was not scored compares with nobody.
          2. The paper is ambiguous about actions of the first phase that were never forked; here children alone decide.
"""

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.methods.registry import register
from apportion.numerics import seg_count


@register(
    "critical_only",
    unit="step",
    family="transform",
    source="arXiv:2512.04949",
    holds=("scale_equivariant", "local_to_group"),
    kind="transform",
)
def critical_only(credit: Credit) -> Credit:
    """Drop units that nothing was tried against.

    Args:
        credit: of S units with their parents. The roots of a group all act in its start state, so several rollouts of
            a task compare their first units even where nothing forks later.

    Returns:
        The same credit with dropped units (`Credit.train_S`), which leave numerator and denominator of the loss. A fork
        whose branches did equally well has credit 0 and stays in both.
    """
    units = credit.units
    source_S = np.where(units.parent_S >= 0, units.parent_S, len(units) + units.group_of_S)
    children = seg_count(source_S, where=credit.known_S, n=int(source_S.max(initial=0)) + 1)
    critical_S = children[source_S] > 1
    before = np.count_nonzero(credit.weight_S)
    after = np.count_nonzero(credit.weight_S & critical_S)
    notes = {**credit.notes, "units_without_alternative": int(before - after)}
    return replace(credit, train_S=np.asarray(credit.train_S) & critical_S, notes=notes)
