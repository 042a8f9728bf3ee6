"""slime: credit worked out by the driver, which sees whole groups, and read back by each rank for the tokens it holds.

    # my_credit.py                                          slime's arguments
    from apportion.adapters.slime import with_credit
    rewards, advantages = with_credit("gigpo", gamma=0.95)  --custom-reward-post-process-path my_credit.rewards
                                                            --custom-advantage-function-path my_credit.advantages

Only listed keys of a sample travel to the ranks, so the credit rides on its reward: a float for everything that adds
and logs rewards, with one advantage per response token beside it. A sample's `metadata` may hold "steps" (spans in the
response), "step_rewards", "states" and "agents", one entry per step. What a method drops leaves `loss_mask`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from apportion.adapters.crediting import Crediting
from apportion.adapters.rows import HostRow, batch_of, per_row, runs_of
from apportion.adapters.slime_ranks import Carried, advantages
from apportion.adapters.told import field, put, steps_told
from apportion.errors import DataError
from apportion.losses import check_pairing
from apportion.numerics import FloatArray
from apportion.resources import Asker


def with_credit(
    method: str, *, unit: str = "", states: str = "exact", ask: Asker | None = None, **params: Any
) -> tuple[Callable[..., Any], Callable[..., None]]:
    """The two functions that slime is given paths of.

    Args:
        method, unit, states, ask, params: as for `apportion.assign` and `apportion.units.STATES`.
    """
    crediting = Crediting(method, unit, states, params, ask)

    def rewards(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[Carried]]:
        """On the driver: raw rewards, and rewards with their credit; loss masks without what is unknown or dropped."""
        flat = list(_flat(samples))
        raw = [_reward(args, sample) for sample in flat]
        rows = _rows(flat, raw)
        credit = crediting.credit(batch_of(rows))
        given = list(per_row(credit.to_tokens(), rows))
        _check_loss(args, given)
        carried = []
        for sample, row, reward, (advantage, weight) in zip(flat, rows, raw, given, strict=True):
            made = Carried(0.0 if reward is None else reward)
            made.advantage_L = np.where(weight > 0, advantage, 0.0).astype(np.float32)
            carried.append(made)
            if row.sampled().any():
                put(sample, "loss_mask", (weight > 0).astype(int).tolist())
        return [float(x) for x in carried], carried

    return rewards, advantages


def _check_loss(args: Any, given: Sequence[tuple[FloatArray, FloatArray]]) -> None:
    """Warn where slime's GSPO, the plain one, would average credit away that differs inside a sample."""
    if getattr(args, "advantage_estimator", None) == "gspo":
        row_of_T = np.repeat(np.arange(len(given)), [len(advantage) for advantage, _ in given])
        advantage_T, weight_T = (np.concatenate(column) for column in zip(*given, strict=True))
        words = {"named": "--advantage-estimator gspo", "use": "grpo or cispo"}
        check_pairing("gspo", advantage_T, weight_T, row_of_T, **words)


def _rows(samples: Sequence[Any], raw: Sequence[float | None]) -> list[HostRow]:
    ids: list[str] = []
    for k, sample in enumerate(samples):
        if field(sample, "group_index", None) is None:
            raise DataError(f"sample {k} has no group_index; slime's data source numbers the samples of each prompt")
    for sample in samples:  # rows of one rollout share a rollout_id; else each sample is a rollout
        rollout = field(sample, "rollout_id", None)
        ids.append(f"{field(sample, 'group_index')}/{field(sample, 'index') if rollout is None else rollout}")
    last = {name: k for k, name in enumerate(ids)}
    places: dict[str, int] = {}
    out = []
    for k, (sample, name) in enumerate(zip(samples, ids, strict=True)):
        size = int(field(sample, "response_length"))
        tokens = np.asarray(field(sample, "tokens"), dtype=np.int64)
        mask = field(sample, "loss_mask", None)
        sampled = np.ones(size, dtype=bool) if mask is None else np.asarray(mask).astype(bool)
        if field(sample, "remove_sample", False):
            sampled = np.zeros(size, dtype=bool)
        told = (field(sample, "metadata", None) or {}) if sampled.any() else {}
        spans = told.get("steps")
        count = len(spans) if spans is not None else len(runs_of(sampled))
        earned, seen, agents = (
            steps_told(told, key, count, f"sample {k}") for key in ("step_rewards", "states", "agents")
        )
        if earned is not None and k == last[name]:
            earned[-1] = None  # it has what the outcome has beyond the other steps
        logp = field(sample, "rollout_log_probs", None)
        places[name] = places.get(name, -1) + 1
        out.append(
            HostRow(
                group=str(field(sample, "group_index")),
                id=name,
                index=places[name],
                prompt_ids=tokens[: len(tokens) - size],
                completion_ids=tokens[len(tokens) - size :],
                mask=sampled,
                reward=raw[last[name]],
                spans=spans,
                logp=None if logp is None or len(logp) != size else logp,
                truncated="truncated" in str(field(sample, "status", "")).lower(),
                step_rewards=earned,
                states=seen,
                agents=agents,
            )
        )
    return out


def _flat(samples: Sequence[Any]) -> Iterator[Any]:
    for sample in samples:
        if isinstance(sample, list):
            yield from _flat(sample)
        else:
            yield sample


def _reward(args: Any, sample: Any) -> float | None:
    value = field(sample, "reward", None)
    key = getattr(args, "reward_key", None)
    if isinstance(value, dict) and key:
        value = value.get(key)
    if isinstance(value, dict):
        raise DataError("a sample's reward is a dict; say which entry counts with --reward-key")
    return None if value is None else float(value)
