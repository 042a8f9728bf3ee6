"""The older trainer and its forks: rows that travel as a DataProto, and `compute_advantage` on them.

The function is told neither the trainer, nor its step, nor where metrics go. So the trainer whose ``fit`` is running is
asked for its step, and what there is to say waits on it until that loop makes its own metrics of the batch.

A fork of verl-agent repeats and reorders its rows before advantages are computed, so they are numbered before that,
where it calls `adjust_batch`; see `dataproto_rows`.
"""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any

from apportion.adapters.verl.contract import LEGACY, TESTED, problem, version
from apportion.adapters.verl.crediting import credit_rows
from apportion.adapters.verl.dataproto_rows import number_rows, parts_of
from apportion.adapters.verl.memory import memory_of, remember_in_fit, running
from apportion.adapters.verl.settings import SECTION, Settings, method_of, section_of, settings_from, settings_of
from apportion.adapters.verl.stage import checked, present, tensor_like
from apportion.errors import ConfigError, StopRun


def wrap(module: ModuleType) -> None:
    """Replace `compute_advantage` in verl's module, and number rows at `adjust_batch` where a fork has it; once."""
    if hasattr(module, "_apportion") or problem(module, LEGACY):
        return
    module._apportion = True  # type: ignore[attr-defined]
    module.compute_advantage = _credited(module.compute_advantage)  # type: ignore[attr-defined]
    trainer = getattr(module, "RayPPOTrainer", None)
    remember_in_fit(trainer)
    if trainer is not None and "config" in inspect.signature(trainer.__init__).parameters:
        trainer.__init__ = checked(trainer.__init__, fork=hasattr(module, "adjust_batch"))
    if callable(metrics := getattr(module, "compute_data_metrics", None)):
        module.compute_data_metrics = _reported(metrics)  # type: ignore[attr-defined]
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


def _reported(theirs: Any) -> Any:
    """The metrics of a batch, with those of its credit among them."""

    @functools.wraps(theirs)
    def compute_data_metrics(*args: Any, **kwargs: Any) -> Any:
        return {**theirs(*args, **kwargs), **(getattr(running(), "credit_metrics", None) or {})}

    return compute_data_metrics


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
    trainer = running()
    step = data.meta_info.get("global_steps", getattr(trainer, "global_steps", None))
    result = credit_rows(
        settings,
        parts_of(data),
        with_returns="values" in present(batch),
        step=None if step is None else int(step),
        memory=memory_of(trainer),
    )
    if trainer is not None:
        trainer.credit_memory, trainer.credit_metrics = result.memory, result.metrics
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
