"""Bi-level GAE: advantages over turns first, then inside each turn over its tokens.

    outer, over the last tokens e[1..K] of the turns:
        d = r[e_k] + gh (r inside turn k+1 + V[e_k+1]) - V[e_k]       A[e_k] = d + gh lam A[e_k+1]
    inner, backwards inside each turn:
        d = r[t] + gamma V[t+1] - V[t]                                A[t] = d + gamma lam A[t+1]

Use       with a token critic and many long turns: gh discounts by turns, gamma by tokens.
Source    VAGEN (arXiv:2510.16907), RAGEN.
Compared  on recorded numbers, with RAGEN's core_algos.py.
Deviates  1. Turns are told, not found where rewards are not 0; RAGEN loses turns without reward.
          2. Rewards inside a turn (several steps in one) reach the turns before it; there they are lost
             (``inner="drop"``).
          3. No whitening inside: write ``bilevel_gae | whiten``.
          4. A truncated trajectory bootstraps with final_value where the data have one.
"""

import numpy as np

from apportion.credit import Credit
from apportion.methods.bootstrap import final_values
from apportion.methods.groups import one_of
from apportion.methods.registry import register
from apportion.numerics import gae, seg_sum
from apportion.units import Units


@register(
    "bilevel_gae",
    unit="token",
    units=("token",),
    family="value",
    reads=("reward_S", "value_S"),
    source="arXiv:2510.16907",
    holds=("scale_equivariant", "local_to_trajectory", "local_to_group"),
    chain=True,
)
def bilevel_gae(
    units: Units, *, gamma: float = 1.0, lam: float = 1.0, turn_gamma: float = 0.95, inner: str = "count"
) -> Credit:
    """Credit each token with its generalised advantage on two clocks.

    Args:
        units: S tokens. Reads reward_S and value_S (value before the token), reward units, and the turns of the steps.
        gamma: discount per token inside a turn, in [0, 1].
        lam: of both recursions; 0 trusts the critic, 1 the sampled return.
        turn_gamma: gh above, discount per turn.
        inner: "count" lets rewards inside a turn reach the turns before it, "drop" does not, as published.

    Returns:
        Credit in reward units.
    """
    one_of("bilevel_gae", ("count", "drop"), inner=inner)
    assert units.value_S is not None
    last, notes = final_values(units)
    reward_S, value_S, traj_S = units.reward_S, units.value_S, units.traj_of_S
    change = (traj_S[1:] != traj_S[:-1]) | (units.turn_S[1:] != units.turn_S[:-1])
    ends_S = np.append(change, True)[: len(units)]
    turn_S = np.cumsum(np.append(0, change))[: len(units)]
    traj_K = traj_S[ends_S]
    reward_K = reward_S[ends_S].copy()
    if inner == "count":
        inside_K = seg_sum(reward_S, turn_S, where=~ends_S, n=len(traj_K))
        follows_K = traj_K[1:] == traj_K[:-1]
        reward_K[:-1] += turn_gamma * np.where(follows_K, inside_K[1:], 0.0)
    outer_K = gae(reward_K, value_S[ends_S], traj_K, gamma=turn_gamma, lam=lam, last_value=last)
    # the turn's target stands in for its last reward, so that the inner recursion starts from the outer advantage
    within_S = reward_S.copy()
    within_S[ends_S] = outer_K + value_S[ends_S]
    return Credit(gae(within_S, value_S, turn_S, gamma=gamma, lam=lam), units, notes=notes)
