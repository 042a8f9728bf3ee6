"""CCPO: a helper is paid for the outcome, and for having changed it against what the others would have done alone.

    base = mean_group(R_solo) or own R_solo
    bonus = 1[R > 0 > base] - 1[R < 0 < base]     or     (R - base) / 2
    r_helper = R + lam bonus,    r_other = R,    A = r - mean_group(r), role by role

Use       two roles that act in turn (thinker, solver), outcomes of -1 and 1, when the first one's part is in doubt.
Source    arXiv:2603.21563; bhai114/ccpo, two_model_trainer.py (lam = 0.2).
Compared  by the worked numbers of the specification, computed from that file.
Deviates  1. Solo outcomes are read from the data, or asked for: the rollout is played on from the first step of another
             agent, without what the helper did. The authors roll both out together.
          2. A base of exactly 0 pays no event bonus, as in the code; an even group can therefore lose the signal.
          3. Which role is trained when (the authors alternate every 10 steps) is the trainer's.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from apportion.asks import Answer, Ask, Continue, Place
from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.continuations import mean_or_nan, returns_of
from apportion.methods.groups import compared, one_of
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import BoolArray, FloatArray, IntArray, centre, seg_count, seg_mean
from apportion.units import Units


def plan(units: Units, *, solo: str, helper: str, k: int) -> list[Ask]:
    """One `Continue` without the helper for each rollout in which another agent acted."""
    _check(units, solo, k)
    if solo == "data":
        return []
    helper_N, alone_N = _roles(units, helper)
    return [
        Continue(Place(n, alone_N[n]), k, without=(helper_N[n],))
        for n in np.flatnonzero(units.valid_N & (alone_N >= 0)).tolist()
    ]


@register(
    "ccpo",
    unit="agent",
    units=("agent", "turn", "step"),
    family="multi-agent",
    reads=("reward_S", "agent_S"),
    needs=("policy",),
    source="arXiv:2603.21563",
    holds=("local_to_group",),
    plan=plan,
)
def ccpo(
    units: Units,
    answers: Sequence[Answer],
    *,
    solo: str = "ask",
    base: str = "mean",
    bonus: str = "event",
    lam: float = 0.2,
    helper: str = "",
    k: int = 1,
    unfinished: float | None = None,
) -> Credit:
    """Credit each role with its outcome against the group's, the helper's with a bonus for the difference it made.

    Args:
        units: S units with agents. Reads outcome_N (reward units; below and above 0 are failure and success), agent_S.
        answers: one for each `Continue` of the plan.
        solo: outcomes without the helper: "ask" for them, or "data", `Trajectory.outcomes["solo"]`.
        base: what the joint outcome is held against, the "mean" of the group's solo outcomes or the rollout's "own".
        bonus: "event" pays for turning failure into success and charges for the reverse, "continuous" half the
            difference.
        lam: weight of the bonus.
        helper: name of the agent that is paid for helping; "" is who acts first in each rollout.
        k: solo outcomes of each rollout. Where a resource shares answers between rollouts that differ only in what is
            left out, give as many as a group has members.
        unfinished: return of a solo play that was cut by its length; None = as it was scored.

    Returns:
        Credit in reward units with the parts "outcome" and "bonus". The helper's units are unknown where no solo
        outcome could be had.
    """
    _check(units, solo, k)
    one_of("ccpo", ("mean", "own"), base=base)
    one_of("ccpo", ("event", "continuous"), bonus=bonus)
    helper_N, alone_N = _roles(units, helper)
    solo_N = np.full(len(units.group_of_N), np.nan)
    if solo == "data":
        solo_N = np.where(units.valid_N, units.outcome_parts["solo"], np.nan)
    else:
        for n, answer in zip(np.flatnonzero(units.valid_N & (alone_N >= 0)).tolist(), answers, strict=True):
            solo_N[n] = mean_or_nan(returns_of(answer, unfinished=unfinished))
    has_N = np.isfinite(solo_N)
    base_N = np.where(has_N, solo_N, 0.0)
    if base == "mean":
        told_N = seg_count(units.group_of_N, where=has_N)[units.group_of_N] > 0
        base_N = seg_mean(base_N, units.group_of_N, where=has_N)[units.group_of_N]
        has_N = told_N & units.valid_N
    bonus_N = lam * _bonus(units.outcome_N, base_N, bonus)
    helps_S = units.agent_S == np.array(helper_N, dtype=object)[units.traj_of_S]
    # one vote per rollout and role: an agent of several units is compared once
    outcome_S = compared(units.outcome_N, units.group_of_N, where=units.valid_N)[units.traj_of_S]
    extra_N = centre(np.where(has_N, bonus_N, 0.0), units.group_of_N, where=has_N)
    outcome_S = np.where(helps_S, _among(units, has_N), outcome_S)
    extra_S = np.where(helps_S, extra_N[units.traj_of_S], 0.0)
    known_S = units.valid_S & (~helps_S | has_N[units.traj_of_S])
    missing = int(np.count_nonzero(units.valid_N & ~has_N))
    notes = {**group_notes(units), **({"rollouts_without_solo": missing} if missing else {})}
    parts: dict[str, FloatArray] = {
        "outcome": np.where(known_S, outcome_S, 0.0),
        "bonus": np.where(known_S, extra_S, 0.0),
    }
    return Credit(parts["outcome"] + parts["bonus"], units, known_S=known_S, parts=parts, notes=notes)


def _check(units: Units, solo: str, k: int) -> None:
    one_of("ccpo", ("ask", "data"), solo=solo)
    if k < 1:
        raise ConfigError(f"ccpo: k is {k}; ask for at least one solo outcome")
    if solo == "data":
        units.require("ccpo", "outcome_parts:solo")


def _among(units: Units, where_N: BoolArray) -> FloatArray:
    """Outcomes against those of the group's rollouts in ``where_N``, for each unit."""
    return centre(units.outcome_N, units.group_of_N, where=where_N)[units.traj_of_S]


def _bonus(joint_N: FloatArray, base_N: FloatArray, bonus: str) -> FloatArray:
    if bonus == "continuous":
        return 0.5 * (joint_N - base_N)
    helped, hurt = (joint_N > 0) & (base_N < 0), (joint_N < 0) & (base_N > 0)
    return helped.astype(np.float64) - hurt


def _roles(units: Units, helper: str) -> tuple[list[str], IntArray]:
    """The helper of each rollout, and the first step, inside it, in which somebody else said something; -1: none."""
    batch = units.batch
    bounds = np.searchsorted(batch.traj_of_S, np.arange(len(batch) + 1)).tolist()
    spoke = (np.bincount(batch.step_of_T[batch.sampled_T], minlength=len(batch.traj_of_S)) > 0).tolist()
    agents = batch.agent_S.tolist()
    names, alone_N = [], np.full(len(batch), -1, dtype=np.int64)
    for n, (first, last) in enumerate(pairwise(bounds)):
        speakers = [(s - first, agents[s]) for s in range(first, last) if spoke[s]]
        names.append(helper or (speakers[0][1] if speakers else ""))
        alone_N[n] = next((s for s, agent in speakers if agent != names[n]), -1)
    return names, alone_N
