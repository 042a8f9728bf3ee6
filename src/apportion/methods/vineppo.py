"""VinePPO: the value of a state is the mean return of fresh continuations from it.

    V[i] = mean_k R(continuation k from the beginning of unit i)
    A[i] = r[i] + gamma * V[i+1] - V[i],     V = 0 after the last unit

Use       where finishing a rollout is cheap and a critic is not to be trusted: the steps of a solution, or an agent's
          steps where its environment can be restored. Costs k continuations from each distinct state.
Source    arXiv:2410.01679 (v2), section 4; K = 9.
Compared  by the worked numbers of the authors' generator, and with exact values of enumerable tasks.
Deviates  1. Equal states (the same tokens of the same task) are asked once; the authors do so within a process.
          2. The authors whiten over response tokens: here `| whiten`, a transform of its own.
          3. A truncated rollout bootstraps with its final value where it has one; the authors' ends at its score.
          4. Rollouts of the group may serve as samples of the states that they share (``reuse``). The authors leave
             them out, which is the default.
"""

import numpy as np

from apportion.asks import Answer, Ask, Continue
from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.continuations import change_of_value, fill_from_behind, mean_or_nan, returns_of
from apportion.methods.groups import one_of, position_S
from apportion.methods.moments import starts
from apportion.methods.registry import register
from apportion.methods.visits import returns_of_others
from apportion.numerics import BoolArray
from apportion.units import Units

REUSE = ("none", "others")


def plan(units: Units, *, k: int, gamma: float, max_states: int | None, reuse: str) -> list[Ask]:
    """One `Continue` for each unit whose state is valued, for as many samples as other rollouts do not supply."""
    supplied_S, valued_S = _choose(units, k, gamma, max_states, reuse)
    place_S = starts(units)
    return [Continue(place_S[s], n) for s in np.flatnonzero(valued_S).tolist() if (n := k - len(supplied_S[s])) > 0]


@register(
    "vineppo",
    unit="step",
    family="extra samples",
    reads=("reward_S",),
    needs=("policy",),
    source="arXiv:2410.01679",
    holds=("local_to_group", "local_to_trajectory"),
    chain=True,
    plan=plan,
)
def vineppo(
    units: Units,
    answers: list[Answer],
    *,
    k: int = 9,
    gamma: float = 1.0,
    max_states: int | None = None,
    unfinished: float | None = None,
    reuse: str = "none",
) -> Credit:
    """Credit each unit with the change of value over it, by Monte-Carlo values.

    Args:
        units: units along time. Reads reward_S, reward units.
        answers: one for each `Continue` of the plan.
        k: continuations from each state. With rewards of 0 and 1 the standard error of a value is at most 1/(2√k).
        gamma: discount per unit, and per step of a continuation.
        max_states: states valued in each trajectory, from its beginning; later units get exactly 0. None = all.
        unfinished: return of a continuation that was cut by its length (the authors': 0); None = as it was scored.
        reuse: "others" counts the returns of the group's other rollouts from the same state as samples, and asks for
            the rest; "none" asks for all.

    Returns:
        Credit in reward units, unknown where a value could not be had. The parts "reward", "next" and "value" add up.
    """
    supplied_S, valued_S = _choose(units, k, gamma, max_states, reuse)
    samples_S = [list(returns) for returns in supplied_S]
    asked = [s for s in np.flatnonzero(valued_S).tolist() if len(supplied_S[s]) < k]
    for s, answer in zip(asked, answers, strict=True):
        samples_S[s] += returns_of(answer, gamma=gamma, unfinished=unfinished)
    value_S = np.array([mean_or_nan(samples) for samples in samples_S], dtype=np.float64)
    later_S = units.valid_S & ~valued_S
    value_S = fill_from_behind(units, value_S, later_S, gamma=gamma)
    notes = {"states_valued": int(valued_S.sum())} | ({"units_beyond_cap": n} if (n := int(later_S.sum())) else {})
    if reuse != "none":
        notes["samples_reused"] = sum(len(supplied_S[s]) for s in np.flatnonzero(valued_S).tolist())
    return change_of_value(units, value_S, gamma=gamma, notes=notes)


def _choose(
    units: Units, k: int, gamma: float, max_states: int | None, reuse: str
) -> tuple[list[list[float]], BoolArray]:
    """Samples that other rollouts supply for each unit, and which units' states are valued."""
    one_of("vineppo", REUSE, reuse=reuse)
    if k < 1 or (max_states is not None and max_states < 1):
        raise ConfigError(f"vineppo: k={k}, max_states={max_states}; give whole numbers from 1 on")
    valued_S = units.valid_S & (position_S(units) < (np.inf if max_states is None else max_states))
    supplied_S: list[list[float]] = [[] for _ in range(len(units))]
    if reuse == "others":
        supplied_S = [
            own[:k] if valued else [] for own, valued in zip(returns_of_others(units, gamma), valued_S, strict=True)
        ]
    return supplied_S, valued_S
