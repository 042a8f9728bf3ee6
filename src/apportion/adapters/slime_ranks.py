"""The half of the slime adapter that runs on the training ranks: credit read back for the tokens that a rank holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.adapters.told import like, missing
from apportion.errors import DataError
from apportion.numerics import FloatArray

Span = tuple[int, int]


class Carried(float):
    """A reward with the advantage of each response token; survives pickling, sums and prints as the reward."""

    advantage_L: FloatArray


def advantages(args: Any, rollout_data: dict[str, Any]) -> None:
    """On a rank: put "advantages" and "returns", each sample's cut to the tokens of this context-parallel rank."""
    pattern = rollout_data.get("log_probs") or rollout_data.get("rollout_log_probs")
    if not pattern:  # a pipeline stage that sees no tokens
        return
    out = []
    for i, (reward, total, size, logp) in enumerate(
        zip(
            rollout_data["rewards"],
            rollout_data["total_lengths"],
            rollout_data["response_lengths"],
            pattern,
            strict=True,
        )
    ):
        whole = getattr(reward, "advantage_L", None)
        if whole is None or len(whole) != size:
            raise DataError(
                f"sample {i} brings no credit for its {size} response tokens; pass both functions of with_credit to "
                "slime, and let nothing change the rewards in between"
            )
        own = whole
        if len(logp) != size:
            rank, ranks = _context_parallel()
            own = np.concatenate([whole[first:last] for first, last in slices(int(total), int(size), rank, ranks)])
        if len(own) != len(logp):
            raise DataError(
                f"sample {i}: this rank holds {len(logp)} of {size} response tokens, and zigzag context parallelism on "
                f"packed sequences gives it {len(own)}; use qkv_format=thd without another way of splitting"
            )
        out.append(like(logp, own))
    rollout_data["advantages"] = out
    rollout_data["returns"] = [x.clone() if hasattr(x, "clone") else x.copy() for x in out]


def slices(total: int, size: int, rank: int, ranks: int) -> list[Span]:
    """The parts of a response that one rank holds: chunks ``rank`` and ``2 ranks - 1 - rank`` of the whole sequence.

    A token belongs to the chunk of the position that predicts it, one before its own.
    """
    chunk = -(-total // (2 * ranks))
    prompt = total - size
    out = []
    for k in (rank, 2 * ranks - 1 - rank):
        first, last = max(k * chunk, prompt - 1), min((k + 1) * chunk, total - 1)
        out.append((first - (prompt - 1), last - (prompt - 1)) if first < last else (0, 0))
    return out


def _context_parallel() -> tuple[int, int]:
    try:
        from megatron.core import mpu
    except ImportError:
        raise missing("credit on context-parallel ranks", "megatron-core") from None
    return mpu.get_context_parallel_rank(), mpu.get_context_parallel_world_size()
