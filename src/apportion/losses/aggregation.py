"""Adding up the losses of tokens, in NumPy: the one place where losses are normalised."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apportion.errors import ConfigError, DataError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

AGGREGATIONS = (
    "token-mean",
    "group-mean-token-mean",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
)
"""Ways to add up: see `shares`."""
BY_GROUP = "group-mean-token-mean"
MEANS_OF_MEANS = (BY_GROUP, "seq-mean-token-mean")


def aggregate(
    loss_T: ArrayLike,
    weight_T: ArrayLike,
    row_of_T: ArrayLike,
    mode: str = "token-mean",
    *,
    length: float | None = None,
    denominator: float | None = None,
    group_of_T: ArrayLike | None = None,
) -> float:
    """Add up the losses of tokens: sum of ``shares(...) * loss_T`` over the tokens of weight above 0.

    The same weights stand above and below the fraction line: what is left out of the sum is not counted either.
    """
    share_T = shares(weight_T, row_of_T, mode, length=length, denominator=denominator, group_of_T=group_of_T)
    used = share_T > 0
    return float(np.sum(share_T[used] * np.asarray(loss_T, dtype=np.float64)[used]))


def shares(
    weight_T: ArrayLike,
    row_of_T: ArrayLike,
    mode: str = "token-mean",
    *,
    length: float | None = None,
    denominator: float | None = None,
    group_of_T: ArrayLike | None = None,
) -> Floats:
    """What each token counts in the loss.

        token-mean               w_t / sum w             long rows count more (verl, TRL's "dapo" and "bnpo")
        group-mean-token-mean    w_t / (n_g G)           the same inside each task's group (DAPO as printed)
        seq-mean-token-mean      w_t / (n_i B)           every row counts the same (GRPO)
        seq-mean-token-sum       w_t / B
        seq-mean-token-sum-norm  w_t / (B length)        a constant length (Dr. GRPO)

    n_i and n_g are the sums of w in a row and in a group, B and G count the rows and groups that have any weight. A
    batch may be split in any way between micro-batches: give each its part of these shares. Where only a micro-batch
    is at hand, give the whole batch's ``denominator`` (see `denominator`) instead; then rows must not be cut for
    "seq-mean-token-mean", nor groups for "group-mean-token-mean".

    The hosts differ in what they call the batch: sum over a micro-batch for TRL's "bnpo", over all processes for its
    "dapo". verl's "seq-mean-token-sum-norm" does not divide by B (``denominator=1``), and its ``length`` is the padded
    width unless one is configured.

    Args:
        weight_T: weights, 0 leaves a token out.
        row_of_T: row of each token.
        mode: one of `AGGREGATIONS`.
        length: the constant of "seq-mean-token-sum-norm", e.g. the most tokens a row may have.
        denominator: sum of w, G or B of the whole batch; default those of the given tokens.
        group_of_T: group of each token; read by "group-mean-token-mean" alone.
    """
    weight = checked_weights(weight_T)
    check_mode(mode, length, group_of_T is not None)
    row = _set_of(row_of_T, mode, group_of_T)
    if row.shape != weight.shape:
        name = "group_of_T" if mode == BY_GROUP else "row_of_T"
        raise DataError(f"{name} has shape {row.shape} and weight_T {weight.shape}; give one entry per token")
    total = _denominator(weight, row, mode) if denominator is None else float(denominator)
    if total <= 0:
        return np.zeros_like(weight)
    if mode in MEANS_OF_MEANS:
        size_B = np.bincount(row, weights=weight)
        return np.where(weight > 0, weight / np.where(size_B > 0, size_B, 1.0)[row], 0.0) / total
    if mode == "seq-mean-token-sum-norm":
        assert length is not None
        total *= length
    return weight / total


def denominator(
    weight_T: ArrayLike, row_of_T: ArrayLike, mode: str = "token-mean", *, group_of_T: ArrayLike | None = None
) -> float:
    """What stands below the fraction line: the sum of weights for "token-mean", else rows or groups with any weight."""
    check_mode(mode, 1.0, group_of_T is not None)
    return _denominator(checked_weights(weight_T), _set_of(row_of_T, mode, group_of_T), mode)


def check_mode(mode: str, length: float | None, grouped: bool = True) -> None:
    """Raise unless the mode exists and has the length or the groups that it needs."""
    if mode not in AGGREGATIONS:
        raise ConfigError(f"aggregation is {mode!r}; give one of {', '.join(AGGREGATIONS)}")
    if mode == "seq-mean-token-sum-norm" and not (length is not None and length > 0):
        raise ConfigError(
            f"aggregation {mode!r} divides by a constant length and length is {length}; "
            "give e.g. the most tokens that a row may have"
        )
    if mode == BY_GROUP and not grouped:
        raise ConfigError(f"aggregation {mode!r} needs group_of_T, the group of each token; give it, or 'token-mean'")


def _set_of(row_of_T: ArrayLike, mode: str, group_of_T: ArrayLike | None) -> Ints:
    """The rows, or the groups in the mode that counts them."""
    return np.asarray(group_of_T if mode == BY_GROUP else row_of_T, dtype=np.int64)


def _denominator(weight: Floats, row: Ints, mode: str) -> float:
    if mode == "token-mean":
        return float(weight.sum())
    return float(len(np.unique(row[weight > 0])))


def checked_weights(weight_T: ArrayLike) -> Floats:
    """The weights, finite and at least 0.

    Raises:
        DataError: some are not.
    """
    weight = np.asarray(weight_T, dtype=np.float64)
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        bad = int(np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))[0])
        raise DataError(f"weight_T is {weight[bad]} at {bad}; weights are finite and at least 0")
    return weight
