"""AgentPRM with a trained process reward model: each step gets its promise, or what it changed in it.

    promise   A[t] = M[t]
    progress  A[t] = M[t] - M[t-1]        M[-1]: the group's mean outcome, or nothing
    M[t]      the model's number for step t, in `Step.rewards` under ``part``

Use       with a fitted `apportion.models.AgentPRM`: ``assign("agentprm", units, values=model)``. Progress is an
          advantage where the environment answers without chance: the next state is worth this step's promise.
Source    arXiv:2511.08325.
Compared  not: no code was found. By the numbers of the specification.
Deviates  1. The value before the first step is not defined in the paper: ``first``.
          2. ``outcome`` puts the outcome in the place of the last step's promise, which it makes known.
"""

import numpy as np

from apportion.credit import Credit
from apportion.methods.continuations import last_units
from apportion.methods.groups import one_of, position_S
from apportion.methods.registry import register
from apportion.numerics import seg_mean
from apportion.units import Units


@register(
    "agentprm",
    unit="step",
    units=("step", "turn"),
    family="value",
    reads=("reward_S", "reward_parts"),
    source="arXiv:2511.08325",
    holds=("scale_equivariant", "local_to_group"),
    chain=True,
    example={"part": "work"},
)
def agentprm(
    units: Units, *, part: str = "promise", credit: str = "progress", first: str = "group", outcome: bool = True
) -> Credit:
    """Credit each step with a process reward model's promise, or with the progress it made.

    Args:
        units: S steps. Reads reward_parts (Step.rewards) and outcome_N, reward units.
        part: name of the part that holds the model's number after each step.
        credit: "promise" or "progress".
        first: what stands before the first step: "group", the mean outcome of the group, or "unknown", which leaves
            first steps out of progress.
        outcome: the outcome takes the place of the last step's number.

    Returns:
        Credit in reward units; unknown where the model has no number.
    """
    one_of("agentprm", ("promise", "progress"), credit=credit)
    one_of("agentprm", ("group", "unknown"), first=first)
    units.require("agentprm", f"reward_parts:{part}")
    after_S = units.reward_parts[part]
    if outcome:
        after_S = np.where(last_units(units), units.outcome_N[units.traj_of_S], after_S)
    known_S = units.valid_S & np.isfinite(after_S)
    if credit == "promise":
        return Credit(np.where(known_S, after_S, 0.0), units, known_S=known_S, notes=_notes(units, known_S))
    mean_G = seg_mean(units.outcome_N, units.group_of_N, where=units.valid_N)
    start_S = position_S(units) == 0
    root_S = mean_G[units.group_of_S] if first == "group" else np.full(len(units), np.nan)
    before_S = np.where(start_S, root_S, np.append(np.nan, after_S[:-1])[: len(units)])
    known_S &= np.isfinite(before_S)
    parts = {name: np.where(known_S, x, 0.0) for name, x in (("after", after_S), ("before", -before_S))}
    return Credit(parts["after"] + parts["before"], units, known_S=known_S, parts=parts, notes=_notes(units, known_S))


def _notes(units: Units, known_S: np.ndarray) -> dict[str, int]:
    missing = int(np.count_nonzero(units.valid_S & ~known_S))
    return {"units_without_value": missing} if missing else {}
