"""The preference losses of `apportion.losses.pairs` on tensors: same names and values, gradients in ``logp_T``."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from apportion.errors import DataError
from apportion.losses.pairs import Pairs, check

__all__ = ["Pairs", "dpo", "treg_dpo", "turn_dpo"]


def dpo(pairs: Pairs, *, beta: float = 0.1, nll: float = 0.0) -> Tensor:
    """See `apportion.losses.pairs.dpo`."""
    check(pairs, beta=beta, nll=nll)
    score_R, mean_R = _rows(pairs, beta)
    loss: Tensor = -logsigmoid(score_R[pairs.chosen_P] - score_R[pairs.rejected_P]) - nll * mean_R[pairs.chosen_P]
    return loss


def turn_dpo(pairs: Pairs, *, beta: float = 0.1, nll: float = 0.01) -> Tensor:
    """See `apportion.losses.pairs.turn_dpo`."""
    return dpo(pairs, beta=beta, nll=nll)


def treg_dpo(pairs: Pairs, reward_T: Tensor, *, beta: float = 0.1, alpha: float = 0.25, nll: float = 0.0) -> Tensor:
    """See `apportion.losses.pairs.treg_dpo`."""
    check(pairs, beta=beta, nll=nll, alpha=alpha)
    if reward_T.shape != pairs.logp_T.shape:
        raise DataError(f"treg_dpo: {reward_T.numel()} token rewards for {len(pairs.logp_T)} tokens; give one for each")
    score_R, _ = _rows(pairs, beta)
    pull_R = torch.zeros_like(score_R).index_add(0, pairs.row_of_T, -beta * reward_T.detach() * pairs.logp_T)
    weight = torch.sigmoid(score_R[pairs.rejected_P] - score_R[pairs.chosen_P]).detach()
    return dpo(pairs, beta=beta, nll=nll) + alpha * weight * (pull_R[pairs.chosen_P] + pull_R[pairs.rejected_P])


def _rows(pairs: Pairs, beta: float) -> tuple[Tensor, Tensor]:
    logp, row = pairs.logp_T, pairs.row_of_T
    count = 1 + max((int(x.max()) for x in (row, pairs.chosen_P, pairs.rejected_P) if len(x)), default=-1)
    zero = torch.zeros(count, dtype=logp.dtype, device=logp.device)
    score = zero.index_add(0, row, beta * (logp - pairs.ref_logp_T))
    size = zero.index_add(0, row, torch.ones_like(logp)).clamp(min=1.0)
    return score, zero.index_add(0, row, logp) / size
