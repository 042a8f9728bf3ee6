"""Tinker's training protocol, hosted or served by SkyRL: one advantage per token on the wire.

    credit = ap.assign("gigpo", ap.by_step(batch), gamma=0.95)
    training.forward_backward(datums(credit, typed=True), loss_fn="importance_sampling")

    tokens            p  p  a  a  o  a            model_input     p p a a o
    advantage         0  0  A  A  0  B            target_tokens   p a a o a
                                                  advantages      0 A A 0 B      logprobs and mask likewise

Each datum is one sequence of tokens whose steps extend one another; a rewritten context begins another. The losses of
the protocol are sums over tokens: divide the learning rate, or the credit (``| scale``), by what is to be averaged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from apportion.adapters.sequences import Sequence, sequences
from apportion.adapters.told import missing
from apportion.credit import Credit
from apportion.errors import ConfigError, DataError

MASKS = ("mask", "weights", "")


def datums(credit: Credit, *, spread: str = "copy", mask: str = "mask", typed: bool = False) -> list[Any]:
    """One datum for each sequence that the loss counts a token of.

    Args:
        credit: of rollouts with token ids and log-probabilities.
        spread: as in `Credit.to_tokens`.
        mask: name under which 1 stands where the loss counts a token (sampled, known, not dropped); "" leaves it out,
            for servers that refuse what a loss does not read. Without it such tokens have advantage 0.
        typed: `tinker.Datum`, which needs the package tinker, in place of plain dicts of arrays.

    Returns:
        Dicts ``{"model_input": ids, "loss_fn_inputs": {"target_tokens", "logprobs", "advantages", mask}}`` or datums;
        all arrays of one datum have the length of its model_input.

    Raises:
        DataError: a sequence without log-probabilities, or whose first token was sampled, which nothing predicts.
    """
    if mask not in MASKS:
        raise ConfigError(f"datums: mask is {mask!r}; give 'mask', 'weights', or '' to leave it out")
    made = [_plain(credit, one, mask) for one in sequences(credit, spread=spread) if one.weight_L.any()]
    return [_typed(one) for one in made] if typed else made


def _plain(credit: Credit, one: Sequence, mask: str) -> dict[str, Any]:
    name = credit.units.batch.names()[one.traj]
    if one.logp_L is None:
        raise DataError(
            f"rollout {name!r} has no log-probabilities, and the losses compare the policy with the sampler's; "
            "keep those that the sampler returned (Step.logp)"
        )
    if one.sampled_L[0]:
        raise DataError(
            f"rollout {name!r}: the first token of a sequence was sampled, and nothing before it predicts it; give the "
            "prompt as prompt_ids, at least its first token"
        )
    inputs = {
        "target_tokens": one.ids_L[1:].astype(np.int64),
        "logprobs": one.logp_L[1:].astype(np.float32),
        "advantages": np.where(one.weight_L > 0, one.advantage_L, 0.0)[1:].astype(np.float32),
    }
    if mask:
        inputs[mask] = one.weight_L[1:].astype(np.float32)
    return {"model_input": one.ids_L[:-1].astype(np.int64), "loss_fn_inputs": inputs}


def _typed(plain: dict[str, Any]) -> Any:
    try:
        from tinker import TensorData, types
    except ImportError:
        raise missing("datums(typed=True)", "tinker") from None
    return types.Datum(
        model_input=types.ModelInput.from_ints(plain["model_input"].tolist()),
        loss_fn_inputs={name: TensorData.from_numpy(array) for name, array in plain["loss_fn_inputs"].items()},
    )
