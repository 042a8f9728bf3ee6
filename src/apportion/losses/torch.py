"""The losses of `apportion.losses.reference` on tensors, with gradients in ``logp_T``; same names, same values."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from apportion.errors import ConfigError
from apportion.losses.aggregation import AGGREGATIONS, BY_GROUP, MEANS_OF_MEANS, check_mode
from apportion.losses.pairing import check_pairing
from apportion.losses.reference import LARGEST_LOG_RATIO, check_clip, check_weights
from apportion.losses.tokens import Tokens

__all__ = [
    "AGGREGATIONS",
    "LOSSES",
    "Tokens",
    "aggregate",
    "cispo",
    "denominator",
    "from_rows",
    "gspo",
    "gspo_token",
    "kl",
    "ppo",
    "reinforce",
    "shares",
]


def from_rows(logp: Tensor, advantage: Tensor, weight: Tensor, old_logp: Tensor | None = None) -> Tokens[Tensor]:
    """See `apportion.losses.reference.from_rows`."""
    rows, width = logp.shape
    row_of_T = torch.arange(rows, device=logp.device).repeat_interleave(width)
    old = None if old_logp is None else old_logp.reshape(-1)
    return Tokens(logp.reshape(-1), advantage.reshape(-1), weight.reshape(-1), row_of_T, old)


def reinforce(tokens: Tokens[Tensor]) -> Tensor:
    """See `apportion.losses.reference.reinforce`."""
    logp, _, advantage, _, _ = _filled(tokens)
    return -advantage * logp


def ppo(
    tokens: Tokens[Tensor],
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    dual_clip: float | None = None,
    delta: float | None = None,
) -> Tensor:
    """See `apportion.losses.reference.ppo`."""
    check_clip("ppo", eps_low, eps_high, dual_clip, delta)
    logp, old, advantage, _, _ = _filled(tokens)
    return _clipped(_log_ratio(logp, old).exp(), advantage, eps_low, eps_high, dual_clip, delta)


def gspo(
    tokens: Tokens[Tensor], *, eps_low: float = 3e-4, eps_high: float = 4e-4, delta: float | None = None
) -> Tensor:
    """See `apportion.losses.reference.gspo`; the warning is for tensors in main memory only."""
    check_clip("gspo", eps_low, eps_high, None, delta)
    logp, old, advantage, used, row = _filled(tokens)
    if advantage.device.type == "cpu":
        check_pairing("gspo", advantage.detach().double().numpy(), used.numpy(), row.numpy())
    ratio = _row_mean(_log_ratio(logp, old), used, row).exp()
    return _clipped(ratio, advantage, eps_low, eps_high, None, delta)


def gspo_token(
    tokens: Tokens[Tensor], *, eps_low: float = 3e-4, eps_high: float = 4e-4, delta: float | None = None
) -> Tensor:
    """See `apportion.losses.reference.gspo_token`."""
    check_clip("gspo_token", eps_low, eps_high, None, delta)
    logp, old, advantage, used, row = _filled(tokens)
    held = logp.detach()
    row_ratio = _row_mean(_log_ratio(held, old), used, row).exp()
    return _clipped(row_ratio * (logp - held).exp(), advantage, eps_low, eps_high, None, delta)


def cispo(tokens: Tokens[Tensor], *, weight_min: float = 0.0, weight_max: float = 5.0) -> Tensor:
    """See `apportion.losses.reference.cispo`."""
    check_weights(weight_min, weight_max)
    logp, old, advantage, _, _ = _filled(tokens)
    weight = _log_ratio(logp.detach(), old).exp().clamp(weight_min, weight_max)
    return -weight * advantage * logp


def kl(logp_T: Tensor, ref_logp_T: Tensor, estimator: str = "k3") -> Tensor:
    """See `apportion.losses.reference.kl`."""
    d = logp_T - ref_logp_T
    if estimator == "k1":
        return d
    if estimator == "k2":
        return d * d / 2
    if estimator == "k3":
        d = d.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
        return (-d).exp() + d - 1
    raise ConfigError(f"kl: the estimator is {estimator!r}; give 'k1', 'k2' or 'k3'")


LOSSES: dict[str, Callable[..., Tensor]] = {
    "ppo": ppo,
    "gspo": gspo,
    "gspo_token": gspo_token,
    "cispo": cispo,
    "reinforce": reinforce,
}
"""Every policy loss by name."""


def aggregate(
    loss_T: Tensor,
    weight_T: Tensor,
    row_of_T: Tensor,
    mode: str = "token-mean",
    *,
    length: float | None = None,
    denominator: float | Tensor | None = None,
    group_of_T: Tensor | None = None,
) -> Tensor:
    """See `apportion.losses.reference.aggregate`."""
    share_T = shares(weight_T, row_of_T, mode, length=length, denominator=denominator, group_of_T=group_of_T)
    share_T = share_T.to(loss_T.dtype)
    return (share_T * torch.where(share_T > 0, loss_T, 0.0)).sum()


def shares(
    weight_T: Tensor,
    row_of_T: Tensor,
    mode: str = "token-mean",
    *,
    length: float | None = None,
    denominator: float | Tensor | None = None,
    group_of_T: Tensor | None = None,
) -> Tensor:
    """See `apportion.losses.reference.shares`; weights are not checked here, that would stop a GPU."""
    check_mode(mode, length, group_of_T is not None)
    row = _set_of(row_of_T, mode, group_of_T)
    weight = weight_T.to(torch.float64) if weight_T.device.type == "cpu" else weight_T.float()
    total = _denominator(weight, row, mode) if denominator is None else denominator
    total = torch.as_tensor(total, dtype=weight.dtype, device=weight.device)
    numerator = weight
    if mode in MEANS_OF_MEANS:
        size = _row_sum(weight, row)[row]
        numerator = torch.where(weight > 0, weight / torch.where(size > 0, size, 1.0), 0.0)
    elif mode == "seq-mean-token-sum-norm":
        assert length is not None
        total = total * length
    return torch.where(total > 0, numerator / torch.where(total > 0, total, 1.0), 0.0)


def denominator(
    weight_T: Tensor, row_of_T: Tensor, mode: str = "token-mean", *, group_of_T: Tensor | None = None
) -> Tensor:
    """See `apportion.losses.reference.denominator`."""
    check_mode(mode, 1.0, group_of_T is not None)
    return _denominator(weight_T, _set_of(row_of_T, mode, group_of_T), mode)


def _set_of(row_of_T: Tensor, mode: str, group_of_T: Tensor | None) -> Tensor:
    """The rows, or the groups in the mode that counts them."""
    if mode != BY_GROUP:
        return row_of_T
    assert group_of_T is not None  # see check_mode
    return group_of_T


def _denominator(weight: Tensor, row: Tensor, mode: str) -> Tensor:
    if mode == "token-mean":
        return weight.sum()
    return (_row_sum(weight, row) > 0).sum()


def _filled(tokens: Tokens[Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Columns with 0 wherever the weight is 0; a gradient of 0 flows back there, whatever the value was."""
    used = tokens.weight_T > 0
    logp = torch.where(used, tokens.logp_T, 0.0)
    old = logp.detach() if tokens.old_logp_T is None else torch.where(used, tokens.old_logp_T, 0.0)
    return logp, old, torch.where(used, tokens.advantage_T, 0.0).to(logp.dtype), used, tokens.row_of_T


def _log_ratio(logp: Tensor, old: Tensor) -> Tensor:
    return (logp - old).clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)


def _row_sum(x: Tensor, row: Tensor) -> Tensor:
    rows = int(row.max()) + 1 if row.numel() else 0
    return torch.zeros(rows, dtype=x.dtype, device=x.device).index_add(0, row, x)


def _row_mean(x: Tensor, used: Tensor, row: Tensor) -> Tensor:
    count = _row_sum(used.to(x.dtype), row)
    return (_row_sum(torch.where(used, x, 0.0), row) / count.clamp(min=1))[row]


def _clipped(
    ratio: Tensor, advantage: Tensor, low: float, high: float, dual_clip: float | None, delta: float | None
) -> Tensor:
    capped = ratio if delta is None else ratio.clamp(max=delta)
    objective = torch.minimum(capped * advantage, ratio.clamp(1 - low, 1 + high) * advantage)
    if dual_clip is not None:
        objective = torch.where(advantage < 0, torch.maximum(objective, dual_clip * advantage), objective)
    return -objective
