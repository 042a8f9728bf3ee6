"""The older trainer and its forks: rows that travel as a DataProto, and `compute_advantage` on them.

verl-agent has one row for each step of a rollout and says in ``non_tensor_batch`` whose it is: ``uid`` (group),
``traj_uid`` (rollout), ``anchor_obs`` (state), ``rewards`` (of the step), ``active_masks``, ``is_action_valid``. It
repeats and reorders rows before advantages are computed, and no column says which step a row is. So its rows are
numbered before that, where it calls `adjust_batch`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np

from apportion.adapters.verl.contract import COLUMNS, LEGACY, TESTED, problem, version
from apportion.adapters.verl.crediting import credit_rows
from apportion.adapters.verl.memory import memory_of, remember_in_fit, running
from apportion.adapters.verl.rollouts import STEP_LISTS, Part, unpadded
from apportion.adapters.verl.settings import SECTION, Settings, method_of, section_of, settings_from, settings_of
from apportion.adapters.verl.stage import present, tensor_like
from apportion.errors import ConfigError, DataError, StopRun
from apportion.numerics import FloatArray

ORDER, REWARDS = "apportion_order", "apportion_rewards"
"""Columns that are added: which step of its rollout a row is, and the rewards of all of them."""

TOLD = ("steps", *STEP_LISTS, "columns", "truncated", "failed", "outcomes", "reference", "final_value")


def wrap(module: ModuleType) -> None:
    """Replace `compute_advantage` in verl's module, and number rows at `adjust_batch` where a fork has it; once."""
    if hasattr(module, "_apportion") or problem(module, LEGACY):
        return
    module._apportion = True  # type: ignore[attr-defined]
    module.compute_advantage = _credited(module.compute_advantage)  # type: ignore[attr-defined]
    remember_in_fit(getattr(module, "RayPPOTrainer", None))
    if callable(adjust := getattr(module, "adjust_batch", None)):
        module.adjust_batch = _numbered(adjust)  # type: ignore[attr-defined]


def _credited(theirs: Any) -> Any:
    signature = inspect.signature(theirs)

    @functools.wraps(theirs)
    def compute_advantage(data: Any, adv_estimator: Any, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind_partial(data, adv_estimator, *args, **kwargs).arguments
        settings = _settings(data, adv_estimator, given.get("config"))
        if settings is None:
            return theirs(data, adv_estimator, *args, **kwargs)
        return credit_data(settings, data)

    return compute_advantage


def _numbered(theirs: Any) -> Any:
    @functools.wraps(theirs)
    def adjust_batch(config: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
        algorithm = config.algorithm
        if settings_of(algorithm.adv_estimator, algorithm) is not None:
            number_rows(data)
            chosen = method_of(algorithm.adv_estimator)
            data.meta_info[SECTION] = section_of(algorithm) | ({} if chosen is None else {"method": chosen})
        return theirs(config, data, *args, **kwargs)

    return adjust_batch


def _settings(data: Any, adv_estimator: Any, algorithm: Any) -> Settings | None:
    settings = settings_of(adv_estimator, algorithm)
    section = data.meta_info.get(SECTION)  # of forks that pass no configuration
    return settings_from(section["method"], section) if settings is None and section else settings


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


def credit_data(settings: Settings, data: Any) -> Any:
    """Write ``advantages`` and ``returns`` into a DataProto, and take what must not be trained out of its masks.

    Args:
        settings: method and cut.
        data: rows in any order; ``responses``, ``token_level_rewards`` and, as a rule, ``attention_mask``,
            ``response_mask``, ``prompts`` in ``batch``, ``uid`` in ``non_tensor_batch``.
    """
    import torch

    batch = data.batch
    if "responses" not in present(batch):  # the newer trainer, which would be one row, one rollout here
        raise ConfigError(
            f"rows without 'responses' reached compute_advantage: verl {version()} has another advantage stage than "
            f"apportion knows, which would count each row as a rollout; use verl {TESTED[0]} to {TESTED[1]}"
        )
    width = batch["token_level_rewards"].shape[1]
    if "response_mask" not in present(batch):
        batch["response_mask"] = batch["attention_mask"][:, -width:]
    step, trainer = data.meta_info.get("global_steps"), running()
    result = credit_rows(
        settings,
        parts_of(data),
        with_returns="values" in present(batch),
        step=None if step is None else int(step),
        memory=memory_of(trainer),
    )
    if trainer is not None:
        trainer.credit_memory = result.memory
    if result.stopped is not None:  # this function knows no trainer that it could ask to stop
        raise StopRun(result.stopped, result.metrics)
    like, shape = batch["token_level_rewards"], tuple(batch["response_mask"].shape)
    batch["advantages"] = tensor_like(like, result.advantage, shape)
    batch["returns"] = tensor_like(like, result.returns, shape)
    if result.drops:
        keep = torch.ones(shape, dtype=torch.bool)
        for at, weight in result.weight.items():
            keep[at, : len(weight)] = torch.from_numpy(weight != 0)
        mask = batch["response_mask"]
        batch["response_mask"] = mask * keep.to(device=mask.device, dtype=mask.dtype)
        if "loss_mask" in present(batch):
            whole = batch["loss_mask"].clone()
            whole[:, -width:] *= keep.to(device=whole.device, dtype=whole.dtype)
            batch["loss_mask"] = whole
    return data


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
