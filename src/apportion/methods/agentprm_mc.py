"""AgentPRM by Monte Carlo: a step is labelled with whether any continuation behind it succeeds; progress is the change.

    Q[t] = 1 if any of k continuations from (s_t, a_t) succeeds, else 0;   Q[T] = the outcome;   A[t] = Q[t] - Q[t-1]

Use       as labels of a process reward model (``credit="promise"``), or as credit by progress. Hard labels saturate:
          with k = 16 and a success probability of 0.2 they are 1 in 97% of states; ``label="mean"`` does not.
Source    arXiv:2511.08325, its Monte-Carlo labels (k = 16).
Compared  not: no code was found. By the numbers of the specification.
Deviates  1. What the environment answered to the step is kept: continuations begin at the next step. Under the paper's
             assumption of deterministic transitions it is the same, and states are shared with other methods' asks.
          2. Success is a return above ``success``, as of the whole episode; a truncated episode counts by its return.
          3. The value before the first step is not defined in the paper: ``first``.
"""

from collections.abc import Sequence

import numpy as np

from apportion.asks import Answer, Ask, Continue
from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.continuations import last_units, mean_or_nan, returns_of
from apportion.methods.groups import one_of, position_S
from apportion.methods.moments import starts
from apportion.methods.registry import register
from apportion.numerics import BoolArray, FloatArray, seg_mean
from apportion.units import Units


def plan(units: Units, *, k: int, credit: str, label: str, first: str) -> list[Ask]:
    """One `Continue` at the beginning of each unit that a label stands at."""
    place_S = starts(units)
    return [Continue(place_S[s], k) for s in np.flatnonzero(_asked(units, k, credit, label, first)).tolist()]


@register(
    "agentprm_mc",
    unit="step",
    family="extra samples",
    reads=("reward_S",),
    needs=("policy",),
    source="arXiv:2511.08325",
    holds=("local_to_group",),
    chain=True,
    plan=plan,
)
def agentprm_mc(
    units: Units,
    answers: Sequence[Answer],
    *,
    k: int = 16,
    credit: str = "progress",
    label: str = "hard",
    success: float = 0.0,
    first: str = "group",
    unfinished: float | None = None,
) -> Credit:
    """Credit each step with its Monte-Carlo label, or with what it changed in it.

    Args:
        units: units along time. Reads reward_S, outcome_N, reward units.
        answers: one for each `Continue` of the plan.
        k: continuations behind each step.
        credit: "promise" is Q[t] itself, "progress" the change Q[t] - Q[t-1].
        label: "hard" is 1 if any return exceeds ``success``, else 0; "mean" is the mean return, reward units.
        success: return above which an episode succeeded, reward units.
        first: what stands for the label before the first step of a rollout: "group" the mean over the group's outcomes
            (of their hard labels), "asked" k continuations from the start, "unknown" leaves first steps out.
        unfinished: return of a continuation that was cut by its length; None = as it was scored.

    Returns:
        Credit without unit for hard labels, else in reward units; unknown where a label could not be had.
    """
    asked_S = _asked(units, k, credit, label, first)
    before_S = np.full(len(units), np.nan)  # label of the state before each unit
    so_far_S = _earned_before(units)
    for s, answer in zip(np.flatnonzero(asked_S).tolist(), answers, strict=True):
        totals = [float(so_far_S[s]) + total for total in returns_of(answer, unfinished=unfinished)]
        before_S[s] = _label(totals, label, success)
    start_S = position_S(units) == 0
    end_N = units.outcome_N if label == "mean" else (units.outcome_N > success).astype(np.float64)
    if first == "group":
        mean_G = seg_mean(end_N, units.group_of_N, where=units.valid_N)
        before_S = np.where(start_S, mean_G[units.group_of_S], before_S)
    after_S = np.append(before_S[1:], 0.0)[: len(units)]
    after_S = np.where(last_units(units), end_N[units.traj_of_S], after_S)
    known_S = units.valid_S & np.isfinite(after_S)
    parts: dict[str, FloatArray] = {}
    if credit == "progress":
        known_S &= np.isfinite(before_S)
        parts = {"after": after_S, "before": -before_S}
    total_S = np.where(known_S, after_S, 0.0)
    parts = {name: np.where(known_S, part, 0.0) for name, part in parts.items()}
    if parts:
        total_S = parts["after"] + parts["before"]
    notes: dict[str, int] = {"states_valued": int(asked_S.sum())}
    if missing := int(np.count_nonzero(units.valid_S & ~known_S)):
        notes["units_without_value"] = missing
    return Credit(total_S, units, known_S=known_S, parts=parts, notes=notes)


def _asked(units: Units, k: int, credit: str, label: str, first: str) -> BoolArray:
    one_of("agentprm_mc", ("promise", "progress"), credit=credit)
    one_of("agentprm_mc", ("hard", "mean"), label=label)
    one_of("agentprm_mc", ("group", "asked", "unknown"), first=first)
    if k < 1:
        raise ConfigError(f"agentprm_mc: k is {k}; give a whole number from 1 on")
    wanted_S = units.valid_S.copy()
    if credit == "promise" or first != "asked":
        wanted_S &= position_S(units) > 0
    return wanted_S


def _label(totals: list[float], label: str, success: float) -> float:
    if label == "mean" or not totals:
        return mean_or_nan(totals)
    return float(any(total > success for total in totals))


def _earned_before(units: Units) -> FloatArray:
    """Rewards of the trajectory before each unit."""
    total_S = np.cumsum(units.reward_S) - units.reward_S
    first_S = np.searchsorted(units.traj_of_S, units.traj_of_S)
    return np.asarray(total_S - total_S[first_S], dtype=np.float64)
