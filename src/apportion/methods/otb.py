"""OTB: at each token, the return to go against the group's mean weighted by how much the gradients weigh so far.

    w[t] = 1 - 2 pi[t] + sum_v pi_v^2          squared length of the logits' gradient at token t
    W[t] = sum_{u <= t} w[u]                   (w times the squared importance weight, if a column holds one)
    A[i,t] = G[i,t] - sum_i W[i,t] G[i,t] / sum_i W[i,t]          over the members that have a token t

Use       with long answers: of all baselines that depend on the position only, it has (nearly) the least variance.
Source    verl's estimator ``optimal_token_baseline``; the theorem is Greensmith et al. 2004.
Compared  on recorded numbers, with verl `compute_optimal_token_baseline_advantage`.
Deviates  1. No epsilon under the fraction; verl adds 1e-8 (``epsilon``). Where no gradient weighs anything, plain mean.
          2. A group of one gets 0; verl leaves it without a baseline (``group_of_one="raw"``).
          3. Positions count sampled tokens, as in verl's multi-turn variant.
"""

import numpy as np

from apportion.credit import Credit
from apportion.errors import DataError
from apportion.methods.groups import LONE, one_of, position_S, return_to_go
from apportion.methods.notes import group_notes
from apportion.methods.registry import register
from apportion.numerics import BoolArray, IntArray, centre, labels, seg_count, seg_sum, to_go
from apportion.units import Units


@register(
    "otb",
    unit="token",
    units=("token",),
    family="monte-carlo",
    reads=("reward_S", "logp_S", "column:prob_square"),
    source="Greensmith et al. 2004",
    holds=("scale_equivariant", "local_to_group"),
    chain=True,
)
def otb(
    units: Units,
    *,
    gamma: float = 1.0,
    zero_tail: bool = True,
    weight: str | None = None,
    epsilon: float = 0.0,
    group_of_one: str = "zero",
) -> Credit:
    """Credit each token with its return to go minus the optimal baseline at its position.

    Args:
        units: S tokens. Reads reward_S, reward units; logp_S, nats; and the column prob_square, the sum of squared
            probabilities over the vocabulary at each token (Step.columns).
        gamma: discount per token, in [0, 1].
        zero_tail: where only one member of a group is left, no baseline; False lets it be its own, which gives 0.
        weight: name of a column with importance weights of the tokens, squared into w; default none.
        epsilon: added under the fraction.
        group_of_one: "zero", or "raw" for a group of one's own return.

    Returns:
        Credit in reward units.
    """
    one_of("otb", LONE, group_of_one=group_of_one)
    assert units.logp_S is not None
    own_S, square_S = np.exp(units.logp_S), units.columns["prob_square"]
    w_S = 1.0 - 2.0 * own_S + square_S
    if (w_S < -0.01).any():
        bad = int(np.argmin(w_S))
        raise DataError(
            f"otb: prob_square of token {bad} is {square_S[bad]:.4g}, less than the square of its own probability "
            f"{own_S[bad]:.4g}; give the sum of squares over the whole vocabulary"
        )
    w_S = np.maximum(w_S, 0.0)
    if weight is not None:
        units.require("otb", f"column:{weight}")
        w_S = w_S * units.columns[weight] ** 2
    W_S = to_go(w_S[::-1], units.traj_of_S[::-1])[::-1]  # backwards over reversed time: a sum so far

    valid_S = units.valid_S
    cell_S = labels(units.group_of_S, position_S(units))
    return_S = return_to_go(units.reward_S, units.traj_of_S, gamma=gamma)
    advantage_S = centre(return_S, cell_S, where=valid_S)
    mean_S = return_S - advantage_S
    top_C = seg_sum(W_S * advantage_S - epsilon * mean_S / _members(cell_S, valid_S), cell_S, where=valid_S)
    bottom_C = seg_sum(W_S, cell_S, where=valid_S) + epsilon
    shift_C = np.divide(top_C, bottom_C, out=np.zeros(len(top_C)), where=bottom_C > 0)
    advantage_S = np.where(valid_S, advantage_S - shift_C[cell_S], 0.0)

    tail_S = valid_S & (_members(cell_S, valid_S) == 1)
    alone_S = valid_S & (_members(units.group_of_N, units.valid_N)[units.traj_of_S] == 1)
    advantage_S[tail_S] = return_S[tail_S] if zero_tail else 0.0
    advantage_S[alone_S] = return_S[alone_S] if group_of_one == "raw" else 0.0
    return Credit(advantage_S, units, notes=group_notes(units))


def _members(seg_of_X: IntArray, where: BoolArray) -> IntArray:
    """Members of each position's own segment, at least 1."""
    return np.maximum(seg_count(seg_of_X, where=where), 1)[seg_of_X]
