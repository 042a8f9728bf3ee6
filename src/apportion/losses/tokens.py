"""What every policy loss reads: flat columns, one entry per token."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

X = TypeVar("X")


class Tokens(NamedTuple, Generic[X]):
    """Columns of equal length T: NumPy arrays or torch tensors.

    Padding and context may be in them, with weight 0: such entries are selected away before any arithmetic, so
    they may hold anything, NaN included.

    Attributes:
        logp_T: log-probability of each token under the policy that is trained, nats.
        advantage_T: credit, reward units (see `Credit.to_tokens`).
        weight_T: how much the loss counts the token; 0 leaves it out of numerator and denominator.
        row_of_T: sequence that the token belongs to, integers from 0.
        old_logp_T: log-probability under the policy that sampled it. None = sampled by the policy that is
            trained, as it is now: every ratio is 1 and only gradients flow.
    """

    logp_T: X
    advantage_T: X
    weight_T: X
    row_of_T: X
    old_logp_T: X | None = None
