"""Policy losses in NumPy, written as the formulas stand; what the tensor versions are compared with.

    ppo         -min(rho A, clip(rho, 1-eps_low, 1+eps_high) A)      rho_t = exp(logp_t - old_t)
    gspo        the same with one ratio per row                      s_i = exp(mean_t (logp_t - old_t))
    gspo_token  the same value, gradient s_i A_t grad logp_t         s_it = sg[s_i] exp(logp_t - sg[logp_t])
    cispo       -sg[clip(rho, weight_min, weight_max)] A logp
    reinforce   -A logp

sg[x] is x without a gradient. `gspo` spreads each token's credit evenly over its row (its gradient sees only the
row's mean credit); credit per token or step needs `gspo_token` or a token ratio.

Source    ppo arXiv:1707.06347, clip-higher arXiv:2503.14476, dual clip arXiv:1912.09729, two-sided clip (delta)
          arXiv:2505.07291 (INTELLECT-2), as TRL's documentation says; gspo and gspo_token arXiv:2507.18071; cispo
          arXiv:2506.13585, whose paper leaves the lower bound inactive.
Deviates  1. cispo's bounds are absolute (verl and SkyRL add 1, TRL takes `epsilon_high` as it is).
          2. The log-ratio is held within ±20 everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.errors import ConfigError, DataError
from apportion.losses.aggregation import AGGREGATIONS, aggregate, checked_weights, denominator, shares
from apportion.losses.pairing import check_pairing
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

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST_LOG_RATIO = 20.0  # e^20: beyond it a ratio is a broken log-probability, not a policy that moved


def from_rows(
    logp: ArrayLike, advantage: ArrayLike, weight: ArrayLike, old_logp: ArrayLike | None = None
) -> Tokens[Any]:
    """Flat columns of rectangles (rows, L), padding included: what weighs 0 is never looked at."""
    rows, width = np.shape(logp)
    row_of_T = np.repeat(np.arange(rows), width)
    old = None if old_logp is None else np.ravel(old_logp)
    return Tokens(np.ravel(logp), np.ravel(advantage), np.ravel(weight), row_of_T, old)


def reinforce(tokens: Tokens[Any]) -> Floats:
    """-A logp, per token. Its gradient is the policy gradient of tokens sampled by the policy as it is."""
    logp, _, advantage, _, _ = _filled(tokens)
    return -advantage * logp


def ppo(
    tokens: Tokens[Any],
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    dual_clip: float | None = None,
    delta: float | None = None,
) -> Floats:
    """The clipped surrogate with one ratio per token.

    Args:
        tokens: see `Tokens`.
        eps_low, eps_high: the ratio is clipped to [1 - eps_low, 1 + eps_high].
        dual_clip: where A < 0 the loss is at most ``dual_clip * |A|`` (verl: 3). None = no such cap.
        delta: the unclipped ratio is at most ``delta`` before the two are compared (TRL). None = no such cap. Where
            A < 0 this is ``dual_clip``; where A > 0 it changes nothing from 1 + eps_high on.
    """
    check_clip("ppo", eps_low, eps_high, dual_clip, delta)
    logp, old, advantage, _, _ = _filled(tokens)
    return _clipped(np.exp(_log_ratio(logp, old)), advantage, eps_low, eps_high, dual_clip, delta)


def gspo(tokens: Tokens[Any], *, eps_low: float = 3e-4, eps_high: float = 4e-4, delta: float | None = None) -> Floats:
    """The clipped surrogate with one ratio per row, the length-normalised likelihood ratio.

    Warns (`FineCreditLost`) when the credit differs inside a row: its gradient sees only the row's mean.

    Args:
        tokens: see `Tokens`.
        eps_low, eps_high, delta: of the row's ratio, see `ppo`.
    """
    check_clip("gspo", eps_low, eps_high, None, delta)
    logp, old, advantage, used, row = _filled(tokens)
    check_pairing("gspo", advantage, used, row)
    ratio = np.exp(_row_mean(_log_ratio(logp, old), used, row))
    return _clipped(ratio, advantage, eps_low, eps_high, None, delta)


def gspo_token(
    tokens: Tokens[Any],
    *,
    eps_low: float = 3e-4,
    eps_high: float = 4e-4,
    delta: float | None = None,
    held_T: Floats | None = None,
) -> Floats:
    """The value of `gspo` with a gradient per token.

    Args:
        tokens: see `Tokens`.
        eps_low, eps_high, delta: of the row's ratio, see `ppo`.
        held_T: log-probabilities that sg[·] is computed with, default ``logp_T``. Moving ``logp_T`` while they
            stay gives the gradient by finite differences.

    With segments as rows the ratio is the segment's: between `ppo` (segments of one token) and one ratio per response.
    """
    check_clip("gspo_token", eps_low, eps_high, None, delta)
    logp, old, advantage, used, row = _filled(tokens)
    held = logp if held_T is None else np.where(used, held_T, 0.0)
    row_ratio = np.exp(_row_mean(_log_ratio(held, old), used, row))
    return _clipped(row_ratio * np.exp(logp - held), advantage, eps_low, eps_high, None, delta)


def cispo(
    tokens: Tokens[Any], *, weight_min: float = 0.0, weight_max: float = 5.0, held_T: Floats | None = None
) -> Floats:
    """REINFORCE with a bounded importance weight; no token loses its gradient.

    Args:
        tokens: see `Tokens`.
        weight_min, weight_max: absolute bounds of the weight, so the hosts' 1 - eps and 1 + eps must be written out.
        held_T: see `gspo_token`.
    """
    check_weights(weight_min, weight_max)
    logp, old, advantage, used, _ = _filled(tokens)
    held = logp if held_T is None else np.where(used, held_T, 0.0)
    weight = np.clip(np.exp(_log_ratio(held, old)), weight_min, weight_max)
    return -weight * advantage * logp


def check_clip(who: str, eps_low: float, eps_high: float, dual_clip: float | None, delta: float | None) -> None:
    """Raise unless the bounds of a ratio are in order."""
    for name, eps in (("eps_low", eps_low), ("eps_high", eps_high)):
        if not eps >= 0:
            raise ConfigError(
                f"{who}: {name} is {eps}; it is a distance from the ratio 1, so give at least 0, e.g. 0.2"
            )
    for name, cap in (("dual_clip", dual_clip), ("delta", delta)):
        if cap is not None and not cap > 1:
            raise ConfigError(f"{who}: {name} is {cap}; it must be above 1, e.g. 3")


def check_weights(weight_min: float, weight_max: float) -> None:
    """Raise unless the bounds of an importance weight are in order."""
    if not 0 <= weight_min <= weight_max or weight_max == 0:
        raise ConfigError(
            f"cispo: weight_min is {weight_min} and weight_max {weight_max}; they bound the weight itself, so give "
            "0 <= weight_min <= weight_max, e.g. 0 and 5"
        )


def kl(logp_T: ArrayLike, ref_logp_T: ArrayLike, estimator: str = "k3") -> Floats:
    """Estimate of KL(policy || reference) at each sampled token, nats.

        k1 = d      k2 = d²/2      k3 = exp(-d) + d - 1      d = logp - ref_logp

    Source  http://joschu.net/blog/kl-approx.html. k3 is unbiased and never negative; as a loss, only the
    gradient of k2 is that of the KL.
    """
    d = np.asarray(logp_T, dtype=np.float64) - np.asarray(ref_logp_T, dtype=np.float64)
    if estimator == "k1":
        return d
    if estimator == "k2":
        return d * d / 2
    if estimator == "k3":
        d = np.clip(d, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
        return np.exp(-d) + d - 1
    raise ConfigError(f"kl: the estimator is {estimator!r}; give 'k1', 'k2' or 'k3'")


LOSSES: dict[str, Callable[..., Floats]] = {
    "ppo": ppo,
    "gspo": gspo,
    "gspo_token": gspo_token,
    "cispo": cispo,
    "reinforce": reinforce,
}
"""Every policy loss by name."""


def _filled(tokens: Tokens[Any]) -> tuple[Floats, Floats, Floats, NDArray[np.bool_], Ints]:
    """Columns with 0 wherever the weight is 0, so that nothing there can reach the arithmetic."""
    logp = np.asarray(tokens.logp_T, dtype=np.float64)
    used = checked_weights(tokens.weight_T) > 0
    old = logp if tokens.old_logp_T is None else np.asarray(tokens.old_logp_T, dtype=np.float64)
    advantage = np.asarray(tokens.advantage_T, dtype=np.float64)
    row = np.asarray(tokens.row_of_T, dtype=np.int64)
    for name, column in (("old_logp_T", old), ("advantage_T", advantage), ("weight_T", used), ("row_of_T", row)):
        if column.shape != logp.shape or logp.ndim != 1:
            raise DataError(
                f"{name} has shape {column.shape} and logp_T {logp.shape}; give flat columns, one entry per token"
            )
    return np.where(used, logp, 0.0), np.where(used, old, 0.0), np.where(used, advantage, 0.0), used, row


def _log_ratio(logp: Floats, old: Floats) -> Floats:
    return np.clip(logp - old, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)


def _row_mean(x: Floats, used: NDArray[np.bool_], row: Ints) -> Floats:
    total = np.bincount(row, weights=np.where(used, x, 0.0))
    count = np.bincount(row, weights=used)
    return np.asarray((total / np.maximum(count, 1))[row], dtype=np.float64)


def _clipped(
    ratio: Floats, advantage: Floats, low: float, high: float, dual_clip: float | None, delta: float | None
) -> Floats:
    capped = ratio if delta is None else np.minimum(ratio, delta)
    objective = np.minimum(capped * advantage, np.clip(ratio, 1 - low, 1 + high) * advantage)
    if dual_clip is not None:
        objective = np.where(advantage < 0, np.maximum(objective, dual_clip * advantage), objective)
    return -objective
