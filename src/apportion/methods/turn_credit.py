"""Turn credit: what each turn changed in the score of the state, shared with the turns that led to it.

    d[k] = score[k] - score of the last scored turn before k          0 where turn k is not scored
    A[j] = sum_{k >= j} gamma^(k-j) d[k] / W[k]                       W[k] = 1 + gamma + ... + gamma^k

Use       when the environment can grade the state after a turn (tests that pass, subgoals reached). The credit of a
          trajectory sums to its last score minus its first.
Source    prime-rl, turn_credit (PrimeIntellect-ai/prime-rl#3282), from its description.
Compared  not with code: on the description's numbers.
Deviates  1. What the first score means is not told there: here the first score is where the rollout starts from, and
          ``start`` gives the score before the first turn.
          2. How it joins the outcome is not told either: add it, ``grpo + turn_credit``.
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.methods.groups import position_S
from apportion.methods.registry import register
from apportion.numerics import FloatArray, to_go
from apportion.units import Units


@register(
    "turn_credit",
    unit="turn",
    units=("turn", "step"),
    family="shaping",
    reads=("reward_S", "reward_parts"),
    source="PrimeIntellect-ai/prime-rl#3282",
    holds=("scale_equivariant", "shift_invariant", "local_to_trajectory", "local_to_group"),
    chain=True,
    example={"score": "work"},
)
def turn_credit(units: Units, *, score: str = "score", gamma: float = 0.5, start: float | None = None) -> Credit:
    """Credit each turn with its share of the changes in the score of the state.

    Args:
        units: S turns. Reads reward_parts (Step.rewards), reward units.
        score: name of the part that holds the score of the state after the turn; turns without one pass it on.
        gamma: how fast a change fades towards earlier turns; 0 leaves it where it happened, 1 shares it evenly.
        start: score before the first turn; default the first score, whose own change is then 0.

    Returns:
        Credit in reward units; trajectories without any score get 0 and are counted.
    """
    if not 0.0 <= gamma <= 1.0:
        raise ConfigError(f"turn_credit: gamma is {gamma}; give a number from 0 to 1")
    units.require("turn_credit", f"reward_parts:{score}")
    score_S = units.reward_parts[score]
    told_S = np.isfinite(score_S)
    change_S = _changes(score_S, told_S, units, start)
    k_S = position_S(units)
    whole_K = np.cumsum(gamma ** np.arange(k_S.max() + 1)) if len(k_S) else np.ones(1)
    advantage_S = to_go(change_S / whole_K[k_S], units.traj_of_S, gamma=gamma)
    scored_N = np.zeros(len(units.group_of_N), dtype=bool)
    scored_N[units.traj_of_S[told_S]] = True
    blank = int(np.count_nonzero(units.valid_N & ~scored_N))
    return Credit(advantage_S, units, notes={"trajectories_without_score": blank} if blank else {})


def _changes(score_S: FloatArray, told_S: np.ndarray, units: Units, start: float | None) -> FloatArray:
    """Each score minus the one before it in its trajectory."""
    at = np.flatnonzero(told_S)
    score, traj = score_S[at], units.traj_of_S[at]
    first = np.append(True, traj[1:] != traj[:-1])[: len(at)]
    before = np.where(first, score if start is None else start, np.append(0.0, score[:-1])[: len(at)])
    out = np.zeros(len(score_S))
    out[at] = score - before
    return out
