"""Critical only: train where more than one way on was tried; every other unit is dropped (CARL's gate).

    keep[s]  <=>  from the state that s acts in, the rollouts of the group went on in more than one way

Use       after a credit on a tree of rollouts, in which most units had no alternative to be compared with.
Source    arXiv:2512.04949 (updates use only edges whose source has more than one child).
Compared  not: the announced code was not to be found. On the worked tree of the specification.
Deviates  1. Only valid rollouts count as ways on: one that broke or was not scored compares with nobody.
          2. The paper is ambiguous about actions of the first phase that were never forked; here children alone decide.
"""

from dataclasses import replace

import numpy as np

from apportion.credit import Credit
from apportion.methods.registry import register
from apportion.numerics import BoolArray, seg_count
from apportion.units import Units, prefix_tree


@register(
    "critical_only",
    unit="step",
    units=("episode", "turn", "step", "segment", "token", "tree"),
    family="transform",
    source="arXiv:2512.04949",
    holds=("scale_equivariant", "local_to_group"),
    kind="transform",
)
def critical_only(credit: Credit) -> Credit:
    """Drop units that nothing was tried against.

    A state is the exact prefix: what was sampled and observed since the first sampled token, compared by token inside a
    group. Rollouts part where their tokens do; one that ended in a state counts as another way on. Branches inside one
    trajectory (`Step.parent`) are children of the unit that they fork from.

    Args:
        credit: of S units. Reads the tokens and the parents of the units.

    Returns:
        The same credit with dropped units (`Credit.train_S`), which leave numerator and denominator of the loss. A fork
        whose branches did equally well has credit 0 and stays in both.
    """
    units = credit.units
    critical_S = _branches(credit) | _parted(units)
    before = np.count_nonzero(credit.weight_S)
    after = np.count_nonzero(credit.weight_S & critical_S)
    notes = {**credit.notes, "units_without_alternative": int(before - after)}
    return replace(credit, train_S=np.asarray(credit.train_S) & critical_S, notes=notes)


def _branches(credit: Credit) -> BoolArray:
    """Units with a known sibling inside their trajectory."""
    units = credit.units
    source_S = np.where(units.parent_S >= 0, units.parent_S, len(units) + units.traj_of_S)
    children = seg_count(source_S, where=credit.known_S, n=int(source_S.max(initial=0)) + 1)
    return children[source_S] > 1


def _parted(units: Units) -> BoolArray:
    """Units after which fewer rollouts of the group share the prefix than before them."""
    tree = prefix_tree(units.batch, units.valid_N)
    own = np.flatnonzero(units.unit_of_T >= 0)
    if not len(own):
        return np.zeros(len(units), dtype=np.bool_)
    first, last = np.full(len(units), -1, dtype=np.int64), np.full(len(units), -1, dtype=np.int64)
    last[units.unit_of_T[own]] = own
    first[units.unit_of_T[own][::-1]] = own[::-1]
    start_S, speaks_S = tree.start_N[units.traj_of_S], last >= 0
    everyone_S = seg_count(units.group_of_N, where=units.valid_N)[units.group_of_S]
    before_S = tree.members_R[tree.run_of(np.maximum(first - 1, start_S))]
    after_S = tree.members_R[tree.run_of(np.maximum(last, start_S))]
    before_S = np.where(first == start_S, everyone_S, before_S)
    return speaks_S & (after_S < before_S)
