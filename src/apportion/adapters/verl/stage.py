"""The advantage stage of verl's trainer (V1), on rows that lie in TransferQueue under ``{uid}_{session}_{output}``.

verl's own stage stays what it is: it fetches, subtracts the KL, corrects for the rollout engine, and puts the result
back. Only the call inside it that compares rows is answered by us, because that call is told neither steps nor states,
and counts each row of a rollout as a rollout.
"""

from __future__ import annotations

import contextvars
import functools
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

from apportion.adapters.verl.contract import COLUMNS, FIELDS, STAGE, check_config, problem, warn_if_untested
from apportion.adapters.verl.crediting import Result, credit_rows
from apportion.adapters.verl.foreseen import check_estimator, check_values, warn_of_unread
from apportion.adapters.verl.memory import memory_of, remember
from apportion.adapters.verl.rollouts import Part, unpadded
from apportion.adapters.verl.settings import Settings, settings_of
from apportion.errors import ConfigError, DataError
from apportion.methods.pooled_memory import Memory
from apportion.numerics import Array, FloatArray


@dataclass(slots=True, eq=False)
class Stage:
    """One call of the stage: what was fetched for it, and what came of it."""

    settings: Settings
    keys: Sequence[str]
    tags: Sequence[Mapping[str, Any]]
    fetched: Mapping[str, Any]
    step: int
    memory: Memory = field(default_factory=Memory)
    result: Result | None = field(default=None)


_CURRENT: contextvars.ContextVar[Stage | None] = contextvars.ContextVar("apportion_verl_stage", default=None)


def take_place(module: ModuleType) -> None:
    """Replace the stage in verl's module, once; other estimators go through as before."""
    if hasattr(module, "_apportion") or problem(module, STAGE):
        return
    module._apportion = True  # type: ignore[attr-defined]
    trainer = module.PPOTrainer
    trainer.__init__ = checked(trainer.__init__)
    trainer._compute_advantage = _credited_stage(module, trainer._compute_advantage)
    remember(trainer)
    module.compute_advantage_for_multi_trajectories = _credited_rows(  # type: ignore[attr-defined]
        module.compute_advantage_for_multi_trajectories
    )


def checked(theirs: Any, *, fork: bool = False) -> Any:
    """A trainer's ``__init__`` that says a wrong setting before models are loaded, not after the first rollouts.

    Args:
        theirs: it takes the configuration first.
        fork: it knows other estimators and settings than verl; what hangs on them is left to it.
    """

    @functools.wraps(theirs)
    def made(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        settings = settings_of(config.algorithm.adv_estimator, config.algorithm)
        if settings is not None:
            check_config(config, settings.crediting)
        if settings is not None and not fork:
            warn_if_untested()
            check_values(config, settings.crediting)
            warn_of_unread(config, settings.crediting)
        elif not fork:
            check_estimator(config.algorithm.adv_estimator)
        theirs(self, config, *args, **kwargs)

    return made


def _credited_stage(module: ModuleType, theirs: Any) -> Any:
    @functools.wraps(theirs)
    def _compute_advantage(self: Any, batch: Any, metrics: dict[str, Any]) -> Any:
        config = self.config
        settings = settings_of(config.algorithm.adv_estimator, config.algorithm)
        if settings is None:
            return theirs(self, batch, metrics)
        check_config(config, settings.crediting)
        wanted = [*FIELDS, *(name for names in COLUMNS.values() for name in names)]
        fetched = module.tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=wanted)
        stage = Stage(settings, batch.keys, batch.tags, fetched, int(getattr(self, "global_steps", 0)), memory_of(self))
        token = _CURRENT.set(stage)
        try:
            out = theirs(self, batch, metrics)
        finally:
            _CURRENT.reset(token)
        if stage.result is None:
            raise ConfigError(
                "verl's advantage stage no longer compares rows by compute_advantage_for_multi_trajectories; "
                "install a verl that apportion was tested with"
            )
        self.credit_memory = stage.result.memory
        metrics.update(stage.result.metrics)
        _put_masks(module, batch, stage)
        if stage.result.stopped is not None:
            _stop(self, stage.result.stopped)
        return out

    return _compute_advantage


def _stop(trainer: Any, reason: str) -> None:
    """Let this step be the last: verl's loop compares with the total after each step, and ends as training does."""
    warnings.warn(reason, stacklevel=2)
    trainer.apportion_stopped = reason
    trainer.total_training_steps = int(getattr(trainer, "global_steps", 0))


def _credited_rows(theirs: Any) -> Any:
    @functools.wraps(theirs)
    def compute_advantage_for_multi_trajectories(data: Any, *args: Any, **kwargs: Any) -> Any:
        stage = _CURRENT.get()
        if stage is None:
            return theirs(data, *args, **kwargs)
        stage.result = credit_rows(
            stage.settings,
            parts_of(stage, data),
            with_returns="values" in present(data.batch),
            step=stage.step,
            memory=stage.memory,
        )
        width = tuple(data.batch["response_mask"].shape)
        for name, rows in (("advantages", stage.result.advantage), ("returns", stage.result.returns)):
            data.batch[name] = tensor_like(data.batch["token_level_rewards"], rows, width)
        return data

    return compute_advantage_for_multi_trajectories


def parts_of(stage: Stage, data: Any) -> list[Part]:
    """The stage's rows without padding rows; ``data`` holds what verl made of them so far, padded."""
    extra = (
        listed(stage.fetched["extra_fields"]) if "extra_fields" in present(stage.fetched) else [{}] * len(stage.keys)
    )
    masks = stage.fetched["response_mask"].unbind()
    ids = {name: stage.fetched[name].unbind() if name in present(stage.fetched) else None for name in FIELDS[:2]}
    columns = {
        name: stage.fetched[key].unbind()
        for name, keys in COLUMNS.items()
        for key in [next((key for key in keys if key in present(stage.fetched)), None)]
        if key is not None
    }
    parts = []
    for at, key in enumerate(stage.keys):
        if at < len(stage.tags) and stage.tags[at].get("is_padding", False):
            continue
        group, rollout, order = _names(key)
        sampled = unpadded(masks[at], len(masks[at])).astype(bool)
        size = len(sampled)
        prompt, response = ids["prompts"], ids["responses"]
        parts.append(
            Part(
                at=at,
                group=group,
                rollout=rollout,
                order=order,
                prompt_ids=_ids(prompt, at, 0),
                ids=_ids(response, at, size),
                sampled=sampled,
                trained=unpadded(data.batch["response_mask"][at], size).astype(bool),
                score=_numbers(data.batch["token_level_scores"][at], size),
                shaped=_numbers(data.batch["token_level_rewards"][at], size),
                told=extra[at] or {},
                columns={name: _numbers(values[at], size) for name, values in columns.items()},
            )
        )
    return parts


def _put_masks(module: ModuleType, batch: Any, stage: Stage) -> None:
    """Take what must not be trained out of the loss: out of its mask, and out of the count that it divides by."""
    assert stage.result is not None
    if not stage.result.drops:
        return
    import torch
    from tensordict import TensorDict

    have = module.tq.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask", "loss_mask"]
    )
    fields = {}
    for name in ("response_mask", "loss_mask"):
        if name in present(have):
            rows = list(have[name].unbind())
            for at, weight in stage.result.weight.items():
                rows[at] = rows[at] * torch.from_numpy(weight != 0).to(dtype=rows[at].dtype, device=rows[at].device)
            fields[name] = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    module.tq.kv_batch_put(
        keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(fields, batch_size=len(batch.keys))
    )


def tensor_like(like: Any, rows: Mapping[int, FloatArray], shape: tuple[int, ...]) -> Any:
    """Rows by their place as one padded tensor; rows that are not given are zeros."""
    import torch

    out = np.zeros(shape, dtype=np.float32)
    for at, row in rows.items():
        out[at, : len(row)] = row
    return torch.from_numpy(out).to(like.device)


def present(fields: Any) -> set[str]:
    """Names of the columns of a TensorDict, whose ``in`` means something else."""
    return set(fields.keys())


def listed(values: Any) -> list[Any]:
    """A column that is no tensor, as a list."""
    return list(values.tolist()) if hasattr(values, "tolist") else list(values)


def _names(key: str) -> tuple[str, str, int]:
    fields = key.rsplit("_", 2)
    if len(fields) != 3 or not fields[2].isdigit():
        raise DataError(f"a row's key is {key!r}; verl names rows by uid, session and output, like 'a1b2_0_0'")
    return fields[0], fields[1], int(fields[2])


def _ids(rows: Any, at: int, size: int) -> Array:
    """Token ids of a row, zeros where the queue holds none."""
    if rows is None:
        return np.zeros(size, dtype=np.int64)
    return unpadded(rows[at], len(rows[at])).astype(np.int64)


def _numbers(row: Any, size: int) -> FloatArray:
    return unpadded(row, size).astype(np.float64)
