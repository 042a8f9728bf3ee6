"""MT-GRPO: turn rewards and the outcome, each turn against the group's members that also reached it.

    A[k] = G[k] - mean of the others' G[k]              over members that reached turn k; G[k] = sum_j gamma^j r[k+j]
    form="turn_index"  A[k] = sum_j gamma^j (r[k+j] - mean of r at turn k+j)       biased where turn counts differ
    form="code"        A[0] = AO + coef * AT, later turns AO                       (two turns)
    form="paper"       A[0] = AT + coef * AO, later turns AO                       (two turns)
    form="pooled"      A[k] = G[k] - mean of G over all turns of the group
    AT, AO             reward of the first turn, return after it, each compared in the group; a rollout of
                       one turn is compared as a whole

Use       when turns have verifiable rewards of their own. Who reached turn k is decided before action k, so the default
          stays unbiased also when the policy chooses how many turns it takes; centring by turn index does not.
Source    arXiv:2505.11821 ("code" is the first version's and the released form, "paper" the second version's).
          The bias is verl-project/verl#7244.
Compared  on recorded numbers, with mt_grpo_env_trainer.py of the authors: ``form="code", scale="std", epsilon=1e-4``.
Deviates  1. The default is not the published form: that knows two turns and equal turn counts only.
          2. Reward units: ``scale="std"`` divides, as published.
          3. Others take one mean over the returns of all turns of a group, late ones and early ones alike
             (PrimeIntellect-ai/verifiers#1554, ``form="pooled"``).
          4. A turn that one member alone reached gets 0; AgileRL offers the rollout's own advantage
             (``group_of_one="trajectory"``), verl the raw value ("raw").
"""

from collections.abc import Callable

import numpy as np

from apportion.credit import Credit
from apportion.methods.groups import compared, one_of, position_S, return_to_go
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import BoolArray, FloatArray, IntArray, labels, seg_count, to_go
from apportion.units import Units

Against = Callable[[FloatArray, IntArray, BoolArray], FloatArray]

FORMS = ("others", "members", "turn_index", "code", "paper", "pooled")


@register(
    "mt_grpo",
    unit="turn",
    units=("turn", "step"),
    family="monte-carlo",
    reads=("reward_S",),
    source="arXiv:2505.11821",
    holds=("scale_equivariant", "shift_invariant", "local_to_group"),
    chain=True,
)
def mt_grpo(
    units: Units,
    *,
    form: str = "others",
    gamma: float = 1.0,
    coef: float = 1.0,
    scale: str = "none",
    ddof: int = 1,
    epsilon: float = 0.0,
    group_of_one: str = "zero",
) -> Credit:
    """Credit each turn with what followed it, compared at the same turn.

    Args:
        units: S turns (or steps). Reads reward_S, reward units.
        form: "others" leaves the member itself out of the mean, "members" takes all that reached the turn;
            "turn_index", "code", "paper" and "pooled" are published forms, see the formula.
        gamma: discount per turn, in [0, 1].
        coef: of "code" and "paper", see the formula.
        scale: "std" divides each comparison by its std, "none" keeps reward units.
        ddof: of the std.
        epsilon: added to the std.
        group_of_one: what a turn gets that nobody else reached: "zero"; its "raw" value; or what its rollout gets,
            "trajectory".

    Returns:
        Credit; of "code" and "paper" with the parts "turn" and "outcome". Turns without company are counted, and
        for the published forms the groups whose turn counts differ.
    """
    one_of("mt_grpo", FORMS, form=form)
    one_of("mt_grpo", ("none", "std"), scale=scale)
    one_of("mt_grpo", ("zero", "raw", "trajectory"), group_of_one=group_of_one)
    valid_S, reward_S = units.valid_S, units.reward_S
    cell_S = units.group_of_S if form == "pooled" else labels(units.group_of_S, position_S(units))
    return_S = return_to_go(reward_S, units.traj_of_S, gamma=gamma)

    def against(x_X: FloatArray, seg_of_X: IntArray, where: BoolArray) -> FloatArray:
        alone, others = ("raw" if group_of_one == "raw" else "zero"), form == "others"
        return compared(
            x_X,
            seg_of_X,
            where=where,
            scale=scale,
            ddof=ddof,
            epsilon=epsilon,
            group_of_one=alone,
            leave_one_out=others,
        )

    notes: dict[str, int | float | str] = {**group_notes(units)}
    if form in ("code", "paper"):
        parts = _two_turns(units, return_S, against, coef, form)
        notes |= _unequal_turns(units)
        return Credit(parts["turn"] + parts["outcome"], units, parts=parts, notes=notes)
    single = valid_S & (seg_count(cell_S, where=valid_S)[cell_S] == 1) if len(units) else valid_S
    advantage_S = against(reward_S if form == "turn_index" else return_S, cell_S, valid_S)
    if group_of_one == "trajectory":
        advantage_S[single] = against(units.outcome_N, units.group_of_N, units.valid_N)[units.traj_of_S][single]
    if form == "turn_index":
        advantage_S = to_go(advantage_S, units.traj_of_S, gamma=gamma)
        notes |= _unequal_turns(units)
    return Credit(advantage_S, units, notes={**notes, "units_without_company": int(np.count_nonzero(single))})


def _two_turns(units: Units, return_S: FloatArray, against: Against, coef: float, form: str) -> dict[str, FloatArray]:
    """The first turn's reward and the return after it, compared apart; of one turn the whole."""
    first = np.flatnonzero(position_S(units) == 0)
    traj = units.traj_of_S[first]
    several_N = np.bincount(units.traj_of_S, minlength=len(units.group_of_N)) > 1
    second = first[several_N[traj]] + 1
    whole_N, turn_N = np.zeros(len(several_N)), np.zeros(len(several_N))
    whole_N[traj] = return_S[first]
    turn_N[traj] = np.where(several_N[traj], units.reward_S[first], 0.0)
    after_N = whole_N.copy()
    after_N[units.traj_of_S[second]] = return_S[second]
    turn_S, outcome_S, whole_S = (
        against(x_N, units.group_of_N, units.valid_N)[units.traj_of_S] for x_N in (turn_N, after_N, whole_N)
    )
    begins_S = (position_S(units) == 0) & several_N[units.traj_of_S]
    on_turn, on_outcome = (coef, 1.0) if form == "code" else (1.0, coef)
    later_S = np.where(begins_S, on_outcome * outcome_S, outcome_S)
    return {
        "turn": np.where(begins_S, on_turn * turn_S, 0.0),
        "outcome": np.where(several_N[units.traj_of_S], later_S, whole_S),
    }


def _unequal_turns(units: Units) -> dict[str, int]:
    """Groups whose members took different numbers of turns: there a baseline by turn index is biased."""
    turns_N = np.bincount(units.traj_of_S, minlength=len(units.group_of_N))
    kinds = np.unique(np.stack((units.group_of_N, turns_N))[:, units.valid_N], axis=1)
    uneven = int(np.count_nonzero(np.bincount(kinds[0]) > 1))
    return {"groups_with_unequal_turns": uneven} if uneven else {}
