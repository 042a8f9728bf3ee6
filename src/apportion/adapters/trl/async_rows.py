"""TRL's AsyncGRPO: step-level credit with a trainer whose rows hold one advantage each.

Its rows are folded into a prefix tree before the forward pass, so a rollout may be handed over several times with other
masks for the price of one more token each:

    tokens    p p a a o b b             row 0   p p a a           mask 0 0 1 1             advantage A
                                        row 1   p p a a o b b     mask 0 0 0 0 0 1 1       advantage B

Push what `step_rows` returns from a `rollout_worker` of your own in place of the rows of `_score_group`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.adapters.sequences import sequences
from apportion.credit import Credit
from apportion.errors import DataError, missing_extra


def step_rows(credit: Credit, *, model_version: int = 0, first_group: int = 0, typed: bool = False) -> list[Any]:
    """One row for each advantage that occurs in a sequence of a rollout: per step, or per token if credit is finer.

    Args:
        credit: of rollouts with token ids and log-probabilities.
        model_version: of the weights that sampled them.
        first_group: number of the first group; groups of one training run need different numbers.
        typed: TRL's `RolloutSample`, in place of dicts with its fields.

    Returns:
        Rows, in order of the rollouts; what is unknown or dropped is in none of them. Tokens of equal advantage in one
        sequence share a row, so the credit of a whole rollout stays one row.

    Raises:
        DataError: a rollout without log-probabilities, or whose first token was sampled.
    """
    out: list[Any] = []
    batch = credit.units.batch
    for one in sequences(credit):
        if not one.weight_L.any():
            continue
        name = batch.names()[one.traj]
        if one.logp_L is None:
            raise DataError(
                f"rollout {name!r} has no log-probabilities; keep those that the server returned (Step.logp)"
            )
        if one.sampled_L[0]:
            raise DataError(f"rollout {name!r}: its first token was sampled, and nothing predicts it; give the prompt")
        counted = one.weight_L > 0
        for value in dict.fromkeys(one.advantage_L[counted].tolist()):
            mask = counted & (one.advantage_L == value)
            size = int(np.flatnonzero(mask)[-1]) + 1
            out.append(
                {
                    "prompt": [],
                    "completion": [],
                    "input_ids": one.ids_L[:size].astype(np.int64),
                    "completion_mask": mask[:size].astype(np.int64),
                    "old_log_probs": one.logp_L[:size].astype(np.float32),
                    "advantage": float(value),
                    "model_version": model_version,
                    "group_id": first_group + int(batch.group_of_N[one.traj]),
                    "metrics": {},
                }
            )
    return [_typed(row) for row in out] if typed else out


def _typed(row: dict[str, Any]) -> Any:
    try:
        from trl.experimental.async_grpo.async_rollout_worker import RolloutSample
    except ImportError:
        raise missing_extra("step_rows(typed=True)", "trl", "trl") from None
    return RolloutSample(**row)
