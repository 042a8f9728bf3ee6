"""Which credit a loss can carry: plain `gspo` has one ratio per row and hands every token the row's mean credit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

ONE_CREDIT_PER_ROW = frozenset({"gspo"})
"""Losses whose gradient sees only the mean credit of a row."""


USE = "gspo_token, or a loss with a ratio per token (ppo, cispo)"


class FineCreditLost(UserWarning):
    """The loss averages away credit that differs inside a row."""


def check_pairing(
    loss: str, advantage_T: ArrayLike, weight_T: ArrayLike, row_of_T: ArrayLike, *, named: str = "", use: str = USE
) -> bool:
    """Warn, once per place, when the loss would throw fine-grained credit away; True when it keeps it.

    The NumPy losses call it themselves, the tensor ones too where the tensors lie in main memory (on a GPU the question
    would stop the queue: ask it here, with the arrays that `Credit.to_tokens` gives, as the embedded trainer does).

    Args:
        loss: name of the loss.
        advantage_T, weight_T, row_of_T: see `Tokens`.
        named: what the reader of the warning calls this loss. use: what to take instead, in the same words.
    """
    if loss not in ONE_CREDIT_PER_ROW:
        return True
    row, used = np.asarray(row_of_T, dtype=np.int64), np.asarray(weight_T) > 0
    advantage = np.asarray(advantage_T, dtype=np.float64)
    if not varies_inside_rows(advantage[used], row[used]):
        return True
    warnings.warn(
        f"{named or loss} has one ratio per row and gives each token the row's mean credit, but this credit differs "
        f"inside rows; use {use}",
        FineCreditLost,
        stacklevel=3,
    )
    return False


def varies_inside_rows(advantage: Any, row: Any) -> bool:
    """Some row has two different credits."""
    if not len(row):
        return False
    low, high = np.full(int(row.max()) + 1, np.inf), np.full(int(row.max()) + 1, -np.inf)
    np.minimum.at(low, row, advantage)
    np.maximum.at(high, row, advantage)
    return bool((high > low).any())
