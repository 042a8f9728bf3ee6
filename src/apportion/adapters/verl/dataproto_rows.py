"""Rows of a DataProto as parts of rollouts, without padding.

verl-agent has one row for each step of a rollout and says in ``non_tensor_batch`` whose it is: ``uid`` (group),
``traj_uid`` (rollout), ``anchor_obs`` (state), ``rewards`` (of the step), ``active_masks``, ``is_action_valid``. It
repeats and reorders rows before advantages are computed, and no column says which step a row is. So its rows are
numbered before that, by `number_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from apportion.adapters.verl.contract import COLUMNS
from apportion.adapters.verl.rollouts import STEP_LISTS, Part, unpadded
from apportion.adapters.verl.stage import present
from apportion.errors import DataError
from apportion.numerics import FloatArray

ORDER, REWARDS = "apportion_order", "apportion_rewards"
"""Columns that are added: which step of its rollout a row is, and the rewards of all of them."""

TOLD = ("steps", *STEP_LISTS, "columns", "truncated", "failed", "outcomes", "reference", "final_value")


def number_rows(data: Any) -> None:
    """Add `ORDER` and `REWARDS` to rows that lie in time order inside each rollout."""
    columns = data.non_tensor_batch
    if "traj_uid" not in columns:
        return
    count: dict[str, int] = {}
    order = np.zeros(len(columns["traj_uid"]), dtype=np.int64)
    earned: dict[str, list[float]] = {}
    for i, name in enumerate(columns["traj_uid"]):
        order[i] = count.get(name, 0)
        count[name] = int(order[i]) + 1
        earned.setdefault(name, []).append(float(columns["rewards"][i]) if "rewards" in columns else np.nan)
    rewards = np.empty(len(order), dtype=object)
    rewards[:] = [tuple(earned[name]) for name in columns["traj_uid"]]
    columns[ORDER], columns[REWARDS] = order, rewards


def parts_of(data: Any) -> list[Part]:
    """Rows without padding; rows of verl-agent that belong to one rollout share it."""
    batch, columns = data.batch, data.non_tensor_batch
    count, width = batch["token_level_rewards"].shape
    if "uid" not in columns:
        raise DataError("the batch has no 'uid'; it names the group of each row, as verl's trainer gives it")
    order = _order(columns, count)
    score = {i: _numbers(batch, ("token_level_scores", "token_level_rewards"), i, width) for i in range(count)}
    base, penalty = _penalties(columns, score)
    extra = list(data.meta_info.get("reward_extra_keys") or ())
    parts = []
    for i in range(count):
        if "active_masks" in columns and not bool(columns["active_masks"][i]):
            continue
        real = _real(batch, i, width)
        size = int(real.sum())
        told = {key: columns[key][i] for key in TOLD if key in columns and columns[key][i] is not None}
        told.setdefault("reward_extra_info", {key: columns[key][i] for key in extra if key in columns})
        agent = "traj_uid" in columns
        if agent:
            told |= _of_step(columns, i)
        mask = unpadded(batch["response_mask"][i], size).astype(bool)
        parts.append(
            Part(
                at=i,
                group=str(columns["uid"][i]),
                rollout=str(columns["traj_uid"][i]) if agent else str(i),
                order=order[i],
                prompt_ids=_prompt(batch, i),
                ids=unpadded(batch["responses"][i], size).astype(np.int64),
                sampled=mask,
                trained=mask,
                score=score[i][:size],
                shaped=_numbers(batch, ("token_level_rewards",), i, size),
                told=told,
                columns={
                    name: _numbers(batch, keys, i, size)
                    for name, keys in COLUMNS.items()
                    if any(key in present(batch) for key in keys)
                },
                penalty=penalty.get(i),
                outcome=base.get(i),
            )
        )
    return parts + _left_out(parts, columns)


def _order(columns: Mapping[str, Any], count: int) -> list[int]:
    """Which row of its rollout each row is."""
    if "traj_uid" not in columns:
        return [0] * count
    for name in (ORDER, "step_index"):
        if name in columns:
            return [int(k) for k in columns[name]]
    names = [(columns["uid"][i], columns["traj_uid"][i]) for i in range(count)]
    if len(set(names)) < count:
        raise DataError(
            "rows share a traj_uid, and nothing says in which order (the trainer balances its batch); give each row "
            "its place as non_tensor_batch['step_index']"
        )
    return [0] * count


def _of_step(columns: Mapping[str, Any], i: int) -> dict[str, Any]:
    """What verl-agent tells about the step that a row is."""
    out: dict[str, Any] = {}
    if "rewards" in columns:
        out["step_rewards"] = [float(columns["rewards"][i])]
    if "anchor_obs" in columns:
        state = columns["anchor_obs"][i]
        out["states"] = [state if isinstance(state, str) else _text(state)]
    return out


def _text(state: Any) -> str | None:
    """A state that is no text by its content; equal states have equal texts."""
    if state is None:
        return None
    if isinstance(state, np.ndarray):
        return f"{state.dtype} {state.shape} {state.tobytes().hex()}"
    return repr(sorted(state.items())) if isinstance(state, Mapping) else repr(state)


def _penalties(
    columns: Mapping[str, Any], score: Mapping[int, FloatArray]
) -> tuple[dict[int, float], dict[int, float]]:
    """By row: the outcome of its rollout, and what its action cost where it was not valid. verl-agent subtracts that
    from the score of that row alone, while every row of a rollout carries the outcome.
    """
    if "traj_uid" not in columns or "is_action_valid" not in columns:
        return {}, {}
    total = {i: float(row.sum()) for i, row in score.items()}
    valid = {i: bool(columns["is_action_valid"][i]) for i in score}
    outcome: dict[Any, float] = {}
    for i in score:
        if valid[i]:
            outcome[columns["traj_uid"][i]] = total[i]
    for i in score:
        if columns["traj_uid"][i] not in outcome:
            told = float(columns["episode_rewards"][i]) if "episode_rewards" in columns else total[i]
            outcome[columns["traj_uid"][i]] = told
    base = {i: outcome[columns["traj_uid"][i]] for i in score}
    return base, {i: 0.0 if valid[i] else total[i] - base[i] for i in score}


def _left_out(parts: list[Part], columns: Mapping[str, Any]) -> list[Part]:
    """Steps that are in no row any more; what they earned still follows the steps before them."""
    if REWARDS not in columns:
        return []
    have: dict[tuple[str, str], dict[int, Part]] = {}
    for part in parts:
        have.setdefault((part.group, part.rollout), {})[part.order] = part
    out, none = [], np.zeros(0)
    for (group, rollout), rows in have.items():
        one = next(iter(rows.values()))
        for order, reward in enumerate(columns[REWARDS][one.at]):
            if order not in rows:
                empty = np.zeros(0, dtype=np.int64)
                flags = np.zeros(0, dtype=bool)
                told = {"step_rewards": [reward]}
                base = one.outcome if one.outcome is not None else float(one.score.sum())
                missing = Part(-1, group, rollout, order, empty, empty, flags, flags, none, told=told, outcome=base)
                out.append(missing)
    return out


def _real(batch: Any, i: int, width: int) -> Any:
    """Where the response has tokens; all of its width where there is no attention mask."""
    if "attention_mask" not in present(batch):
        return np.ones(width, dtype=bool)
    mask = batch["attention_mask"][i]
    return unpadded(mask, len(mask))[-width:].astype(bool)


def _prompt(batch: Any, i: int) -> Any:
    if "prompts" not in present(batch):
        return np.zeros(0, dtype=np.int64)
    ids = unpadded(batch["prompts"][i], len(batch["prompts"][i])).astype(np.int64)
    if "attention_mask" not in present(batch):
        return ids
    mask = batch["attention_mask"][i]
    return ids[unpadded(mask, len(mask))[: len(ids)].astype(bool)]


def _numbers(batch: Any, keys: tuple[str, ...], i: int, size: int) -> FloatArray:
    key = next(key for key in keys if key in present(batch))
    return unpadded(batch[key][i], size).astype(np.float64)
