"""Preference losses: one number per pair of rows, a chosen and a rejected one. Arrays here, tensors in `pairs_torch`.

A row is a response, or a turn with its history; the pairs say which row was preferred to which. Token axis T, pairs P.

    s(y)     = beta * sum over tokens of (log pi - log pi_ref)
    dpo      = -log sigmoid(s(y+) - s(y-))  +  nll * mean over y+ of -log pi
    treg_dpo = dpo + alpha * w * (R(y+) + R(y-)),   R(y) = -beta * sum of r * log pi,   w = sigmoid(s(y-) - s(y+))

``w`` is the weight of DPO's own gradient and has no gradient itself. `turn_dpo` is `dpo` whose rows are turns, with the
small likelihood term of SWEET-RL's second stage.

Source    DPO (arXiv:2305.18290); T-REG (arXiv:2412.02685), whose token rewards r in (-½, ½) the method `treg` asks for;
          turn_dpo: SWEET-RL (arXiv:2503.15478), equation 4 and its likelihood term.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.errors import ConfigError, DataError

Floats = NDArray[np.float64]


class Pairs(NamedTuple):
    """Tokens of some rows, and which rows are compared.

    Attributes:
        logp_T, ref_logp_T: log-probability of each token under the policy and the reference, nats.
        row_of_T: row of each token, from 0 on.
        chosen_P, rejected_P: rows of each pair.
    """

    logp_T: Any
    ref_logp_T: Any
    row_of_T: Any
    chosen_P: Any
    rejected_P: Any


def dpo(pairs: Pairs, *, beta: float = 0.1, nll: float = 0.0) -> Floats:
    """Loss of each pair, (P,); see the module.

    Args:
        pairs: see `Pairs`.
        beta: reward per nat.
        nll: weight of the chosen rows' mean negative log-likelihood.

    Raises:
        ConfigError: a parameter out of its range. DataError: arrays that do not belong together.
    """
    check(pairs, beta=beta, nll=nll)
    score_R, mean_R = _rows(pairs, beta)
    chosen, rejected = np.asarray(pairs.chosen_P), np.asarray(pairs.rejected_P)
    loss: Floats = np.logaddexp(0.0, score_R[rejected] - score_R[chosen]) - nll * mean_R[chosen]
    return loss


def turn_dpo(pairs: Pairs, *, beta: float = 0.1, nll: float = 0.01) -> Floats:
    """`dpo` on turns of one history each, with SWEET-RL's likelihood term."""
    return dpo(pairs, beta=beta, nll=nll)


def treg_dpo(pairs: Pairs, reward_T: ArrayLike, *, beta: float = 0.1, alpha: float = 0.25, nll: float = 0.0) -> Floats:
    """DPO pulled towards token rewards, (P,); see the module.

    Args:
        pairs: see `Pairs`.
        reward_T: r of each token, as `treg` gives it; a constant of the optimisation.
        beta, nll: as for `dpo`. alpha: weight of the token term.

    Raises:
        ConfigError, DataError: as `dpo`.
    """
    check(pairs, beta=beta, nll=nll, alpha=alpha)
    reward = np.asarray(reward_T, dtype=np.float64)
    logp, row = np.asarray(pairs.logp_T, dtype=np.float64), np.asarray(pairs.row_of_T)
    if reward.shape != logp.shape:
        raise DataError(f"treg_dpo: {reward.size} token rewards for {logp.size} tokens; give one for each")
    score_R, _ = _rows(pairs, beta)
    pull_R = -beta * np.bincount(row, weights=reward * logp, minlength=len(score_R))
    chosen, rejected = np.asarray(pairs.chosen_P), np.asarray(pairs.rejected_P)
    weight = 1.0 / (1.0 + np.exp(score_R[chosen] - score_R[rejected]))
    loss: Floats = dpo(pairs, beta=beta, nll=nll) + alpha * weight * (pull_R[chosen] + pull_R[rejected])
    return loss


def check(pairs: Pairs, *, beta: float, nll: float, alpha: float = 0.0) -> None:
    """Raise one sentence for what cannot be meant."""
    for name, value, low in (("beta", beta, 0.0), ("nll", nll, None), ("alpha", alpha, None)):
        if not np.isfinite(value) or (value <= 0 if low is not None else value < 0):
            raise ConfigError(
                f"a preference loss: {name} is {value!r}; give a number {'above' if low is not None else 'from'} 0"
            )
    tokens, rows = len(pairs.logp_T), len(pairs.row_of_T)
    if not tokens == rows == len(pairs.ref_logp_T):
        raise DataError(
            f"a preference loss: {tokens} log-probabilities, {len(pairs.ref_logp_T)} of the reference, {rows} rows; "
            "give one of each for every token"
        )
    if len(pairs.chosen_P) != len(pairs.rejected_P):
        raise DataError(
            f"a preference loss: {len(pairs.chosen_P)} chosen rows and {len(pairs.rejected_P)} rejected; give pairs"
        )


def _rows(pairs: Pairs, beta: float) -> tuple[Floats, Floats]:
    """Score and mean log-probability of each row; an empty row has 0 of both."""
    logp, ref = (np.asarray(x, dtype=np.float64) for x in (pairs.logp_T, pairs.ref_logp_T))
    row = np.asarray(pairs.row_of_T)
    named = [np.asarray(x) for x in (pairs.chosen_P, pairs.rejected_P)]
    count = int(max([-1, *(x.max(initial=-1) for x in (row, *named))])) + 1
    score = np.asarray(beta * np.bincount(row, weights=logp - ref, minlength=count), dtype=np.float64)
    size = np.bincount(row, minlength=count)
    mean: Floats = np.bincount(row, weights=logp, minlength=count) / np.maximum(size, 1)
    return score, mean
