"""C3: one decision is judged by what comes of other decisions in exactly its context.

    reward_only      A = r - b(r)                  r: mean return below a decision,   b: mean over the siblings
    value_only       A = q - b(q)                  q: a critic's value of the decision
    value_assisted   A = r - ((1 - alpha) b(r) + alpha b(q))

Use       where a decision's exact context can be played again: several agents in a fixed order, or one agent's steps.
          Siblings are asked for, or are in the data (nested rollouts; the forks that `apportion.resources.fork` makes).
Source    arXiv:2603.06859; EIT-EAST-Lab/C3, c3/credit/c3/provider.py.
Compared  by the worked numbers of the specification, computed from that file.
Deviates  1. The default is reward_only with alternatives that are asked for; the code's is value_assisted on nested
             rollouts: ``siblings="data", mode="value_assisted"``. A critic cannot be asked about an alternative that is
             in no rollout.
          2. A decision whose comparison could not be had is unknown and counted; the code stops (``on_gap="raise"``).
          3. Equal decisions in equal contexts are one sibling with the mean of what followed.
"""

from collections.abc import Sequence

import numpy as np

from apportion.asks import Answer, Ask, Continue, Place, Value
from apportion.credit import Credit
from apportion.errors import ConfigError, DataError
from apportion.methods.branching import EQUAL, Branches, branches
from apportion.methods.continuations import returns_of
from apportion.methods.groups import added, one_of
from apportion.methods.moments import spans, starts
from apportion.methods.registry import register
from apportion.numerics import BoolArray, FloatArray, seg_count, seg_sum, to_go
from apportion.units import Units

MODES = ("reward_only", "value_only", "value_assisted")


def plan(units: Units, *, siblings: str, mode: str, k: int, equal: str) -> list[Ask]:
    """Alternatives of each decision; for siblings in the data only what a critic has to be asked."""
    _check(siblings, mode, k, equal)
    if siblings == "ask":
        place_S = starts(units)
        return [Continue(place_S[s], k) for s in np.flatnonzero(units.valid_S).tolist()]
    if mode == "reward_only":
        return []
    at_S = _behind(units)
    return [Value(at_S[s]) for s in np.flatnonzero(_compared(units, equal)[1]).tolist()]


@register(
    "c3",
    unit="step",
    family="extra samples",
    reads=("reward_S",),
    needs=("policy",),
    source="arXiv:2603.06859",
    holds=("local_to_group", "local_to_trajectory"),
    plan=plan,
)
def c3(
    units: Units,
    answers: Sequence[Answer],
    *,
    siblings: str = "ask",
    mode: str = "reward_only",
    baseline: str = "loo",
    alpha: float = 1.0,
    k: int = 3,
    gamma: float = 1.0,
    equal: str = "merged",
    on_gap: str = "unknown",
) -> Credit:
    """Credit each decision with its advantage over its siblings.

    Args:
        units: S decisions. Reads reward_S, outcome_N (reward units); with siblings in the data the tokens or parents.
        answers: to the plan.
        siblings: "ask" for ``k`` alternatives of each decision, played to the end; or those in the "data": decisions
            of the group after exactly the same tokens, or forks of one step.
        mode: see above. The value modes ask a critic (`Value` behind each decision) instead of a policy, and need
            siblings in the data.
        baseline: "loo", the mean of the other siblings, or "full", of all.
        alpha: share of the critic in the baseline of value_assisted.
        k: alternatives asked for; with the decision itself the set has k + 1 (the authors': 4).
        gamma: discount per unit and per step of an alternative, for ``siblings="ask"``.
        equal: equal decisions in equal contexts are one sibling ("merged"), or every sample is ("apart", by parents).
        on_gap: a decision that has nothing to be compared with because asks failed is "unknown", or "raise".

    Returns:
        Credit in reward units. A decision without siblings in the data gets 0.

    Raises:
        DataError: a gap, with ``on_gap="raise"``.
    """
    _check(siblings, mode, k, equal)
    one_of("c3", ("loo", "full"), baseline=baseline)
    one_of("c3", ("unknown", "raise"), on_gap=on_gap)
    if not 0.0 <= alpha <= 1.0:
        raise ConfigError(f"c3: alpha is {alpha}; give a share from 0 to 1")
    if siblings == "ask":
        advantage_S, known_S = _against_asked(units, answers, baseline, gamma)
    else:
        advantage_S, known_S = _against_data(units, answers, mode, baseline, alpha, equal)
    gaps_S = units.valid_S & ~known_S
    notes = {"units_without_value": int(gaps_S.sum())} if gaps_S.any() else {}
    if notes and on_gap == "raise":
        s = int(np.flatnonzero(gaps_S)[0])
        raise DataError(
            f"c3: {int(gaps_S.sum())} decisions, the first of them unit {s} of trajectory {int(units.traj_of_S[s])}, "
            "have nothing to be compared with; ask again, or leave them unknown with on_gap='unknown'"
        )
    return Credit(advantage_S, units, known_S=known_S, notes=notes)


def _check(siblings: str, mode: str, k: int, equal: str) -> None:
    one_of("c3", ("ask", "data"), siblings=siblings)
    one_of("c3", MODES, mode=mode)
    one_of("c3", EQUAL, equal=equal)
    if siblings == "ask" and mode != "reward_only":
        raise ConfigError(
            f"c3: mode {mode!r} asks a critic about each sibling, and one that is asked for stands in no rollout; "
            "grow the rollouts with apportion.resources.fork and give siblings='data'"
        )
    if k < 1:
        raise ConfigError(f"c3: k is {k}; ask for at least one alternative")


def _against_asked(
    units: Units, answers: Sequence[Answer], baseline: str, gamma: float
) -> tuple[FloatArray, BoolArray]:
    own_S = to_go(units.reward_S, units.traj_of_S, gamma=gamma) if units.first_fork() < 0 else _below(units)
    out, known_S = np.zeros(len(units)), np.zeros(len(units), dtype=np.bool_)
    for s, answer in zip(np.flatnonzero(units.valid_S).tolist(), answers, strict=True):
        others = returns_of(answer, gamma=gamma)
        if others:
            all_of_them = others if baseline == "loo" else [*others, float(own_S[s])]
            out[s], known_S[s] = float(own_S[s]) - float(np.mean(all_of_them)), True
    return out, known_S


def _below(units: Units) -> FloatArray:
    """Mean return from each unit on, over the branches below it."""
    out, below = units.reward_S.copy(), [list[float]() for _ in range(len(units))]
    for s in range(len(units) - 1, -1, -1):
        out[s] += float(np.mean(below[s])) if below[s] else 0.0
        if units.parent_S[s] >= 0:
            below[units.parent_S[s]].append(float(out[s]))
    return out


def _compared(units: Units, equal: str) -> tuple[Branches, BoolArray]:
    """The tree, and the decisions that have siblings."""
    tree = branches(units, equal="merged" if units.level == "tree" else equal, value="leaves")
    return tree, tree.known_S & (tree.siblings_S > 1)


def _against_data(
    units: Units, answers: Sequence[Answer], mode: str, baseline: str, alpha: float, equal: str
) -> tuple[FloatArray, BoolArray]:
    tree, compared_S = _compared(units, equal)
    r_S = np.where(tree.known_S, tree.after_S, 0.0)
    known_S = tree.known_S
    r_base_S = _baseline(tree, r_S, tree.counted_S, baseline)
    if mode == "reward_only":
        return np.where(compared_S, added([r_S, -r_base_S]), 0.0), known_S
    q_S, asked_S = np.zeros(len(units)), np.zeros(len(units), dtype=np.bool_)
    for s, answer in zip(np.flatnonzero(compared_S).tolist(), answers, strict=True):
        if answer.samples:
            q_S[s], asked_S[s] = float(answer.one), True
    q_base_S = _baseline(tree, q_S, tree.counted_S & asked_S, baseline)
    others_S = seg_count(tree.node_S, where=tree.counted_S & asked_S)[tree.node_S]
    enough_S = asked_S & (others_S > 1)
    if mode == "value_only":
        return np.where(enough_S, added([q_S, -q_base_S]), 0.0), known_S & (enough_S | ~compared_S)
    mixed_S = (1.0 - alpha) * r_base_S + alpha * q_base_S
    return np.where(enough_S, r_S - mixed_S, 0.0), known_S & (enough_S | ~compared_S)


def _baseline(tree: Branches, x_S: FloatArray, counted_S: BoolArray, baseline: str) -> FloatArray:
    """Mean over the siblings, or over the others; over nothing 0."""
    total_S = seg_sum(x_S, tree.node_S, where=counted_S)[tree.node_S]
    count_S = seg_count(tree.node_S, where=counted_S)[tree.node_S]
    if baseline == "loo":
        total_S, count_S = total_S - x_S, count_S - 1
    return np.where(count_S > 0, total_S, 0.0) / np.maximum(count_S, 1)


def _behind(units: Units) -> list[Place]:
    """The moment behind each decision, before anybody answers."""
    return [
        Place(int(n), runs[-1].step, runs[-1].last) if runs else place
        for n, runs, place in zip(units.traj_of_S.tolist(), spans(units), starts(units), strict=True)
    ]
