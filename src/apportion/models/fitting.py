"""The loop that fits every credit model: seeded order, clipped steps, checkpoints, and no step on what is not finite.

An epoch depends on the seed, its number and the state at its begin alone, so a run that was stopped goes on to the same
numbers from its last checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from apportion.errors import ConfigError, DataError
from apportion.models.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from apportion.numerics import IntArray


@dataclass(frozen=True, slots=True)
class Settings:
    """How a credit model is fitted.

    Attributes:
        epochs: passes over the data. lr: of AdamW. weight_decay: of AdamW.
        batch_tokens: tokens of one optimizer step, at least one row. clip_norm: of all gradients together.
        held_out: share of the groups that is kept for the measures and never fitted.
        seed: of the order, of the held-out groups and of new weights.
    """

    epochs: int = 3
    lr: float = 1e-3
    weight_decay: float = 0.0
    batch_tokens: int = 8192
    clip_norm: float = 1.0
    held_out: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        whole = {"epochs": 1, "batch_tokens": 1, "seed": 0}
        for name, least in whole.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigError(f"fitting: {name} is {value!r}; give a whole number from {least} up")
        for name, low, high in (("lr", 0, 1), ("weight_decay", 0, 1), ("clip_norm", 0, 1e9), ("held_out", 0, 0.9)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not low <= value <= high or (name == "lr" and value == 0):
                raise ConfigError(f"fitting: {name} is {value!r}; give a number from {low} to {high}")

    @classmethod
    def of(cls, given: Settings | None, **changed: Any) -> Settings:
        """Settings with some of them named.

        Raises:
            ConfigError: a name that is none of them.
        """
        unknown = [name for name in changed if name not in cls.__dataclass_fields__]
        if unknown:
            raise ConfigError(f"fitting has no setting {unknown[0]!r}; there are {', '.join(cls.__dataclass_fields__)}")
        return replace(given or cls(), **changed)


class Task(Protocol):
    """What is fitted: items that are read together, and their loss."""

    @property
    def sizes(self) -> IntArray:
        """Tokens of each item, (W,)."""

    def begin(self, epoch: int) -> None:
        """Before an epoch: targets that depend on the model as it is."""

    def loss(self, items: IntArray) -> tuple[Tensor, float]:
        """Sum of the losses of some items, and of their weights."""


@dataclass(slots=True)
class Fitted:
    """What a fit did.

    Attributes:
        losses: mean loss of each epoch. steps: optimizer steps. tokens: tokens read.
        settings: as they were. resumed: epochs that an earlier run had done.
        measures: what `Measured` says of the held-out rollouts.
    """

    settings: Settings
    losses: list[float] = field(default_factory=list)
    steps: int = 0
    tokens: int = 0
    resumed: int = 0
    measures: dict[str, Any] = field(default_factory=dict)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


Progress = Callable[[int, int, float], None]
"""Called after each step with steps done, steps in all, and the loss."""


def run(
    module: torch.nn.Module,
    task: Task,
    settings: Settings,
    *,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    after_step: Callable[[], None] | None = None,
) -> Fitted:
    """Fit the parameters that learn.

    Args:
        module: what holds them; its whole state goes into checkpoints.
        task: see `Task`.
        settings: see `Settings`.
        folder: a checkpoint after each epoch; None = none.
        resume: go on from the newest checkpoint of the folder.
        progress: see `Progress`. after_step: called after each optimizer step (target copies).

    Raises:
        DataError: a loss that is not finite; the parameters are those of the begin of the epoch again.
        CheckpointError: no checkpoint to go on from, or one of another model.
    """
    learning = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=settings.lr, weight_decay=settings.weight_decay)
    fitted, first = Fitted(settings), 0
    if resume:
        if folder is None:
            raise ConfigError("resume needs the folder of the run; give out")
        first, counters = load_checkpoint(folder, module, optimizer)
        fitted = Fitted(settings, list(counters["losses"]), counters["steps"], counters["tokens"], resumed=first)
    elif folder is not None and checkpoints(folder):
        raise ConfigError(f"{folder} holds checkpoints of an earlier run; resume it, or give another folder")
    for epoch in range(first, settings.epochs):
        task.begin(epoch)
        count = len(_steps(task.sizes, settings, epoch)) * settings.epochs
        total = weight = 0.0
        for summed, weighs, tokens in pass_over(module, task, optimizer, settings, epoch):
            if after_step is not None:
                after_step()
            total, weight = total + summed, weight + weighs
            fitted.steps += 1
            fitted.tokens += tokens
            if progress is not None:
                progress(fitted.steps, count, summed / weighs)
        fitted.losses.append(total / weight if weight else math.nan)
        if folder is not None:
            counters = {"losses": fitted.losses, "steps": fitted.steps, "tokens": fitted.tokens}
            save_checkpoint(folder, epoch + 1, module, optimizer, counters)
    return fitted


def pass_over(
    module: torch.nn.Module, task: Task, optimizer: torch.optim.Optimizer, settings: Settings, number: int
) -> Iterator[tuple[float, float, int]]:
    """Make the steps of one pass over the items; after each, its summed loss, the sum of its weights, and its tokens.

    Args:
        module: what holds the parameters. task: begun. optimizer: of the parameters that learn.
        settings: see `Settings`; the number of epochs is not read. number: of the pass, on which its order depends.

    Raises:
        DataError: a loss that is not finite; the parameters are those of the begin of the pass again.
    """
    learning = [p for group in optimizer.param_groups for p in group["params"]]
    kept = {name: p.detach().clone() for name, p in module.named_parameters() if p.requires_grad}
    for items in _steps(task.sizes, settings, number):
        summed, weighs = task.loss(items)
        if weighs == 0:
            continue
        loss = summed / weighs
        if not math.isfinite(loss.item()):
            _put_back(module, kept)
            raise DataError(
                f"the loss is {loss.item()} in epoch {number + 1}, so nothing of that epoch was kept; lower lr "
                f"(now {settings.lr:g}), and look for huge rewards in the rollouts"
            )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(learning, settings.clip_norm)
        optimizer.step()
        yield float(summed.item()), weighs, int(task.sizes[items].sum())


def _steps(sizes: IntArray, settings: Settings, epoch: int) -> list[IntArray]:
    """Items of each optimizer step: shuffled, then filled up to so many tokens."""
    order = np.random.default_rng([settings.seed, epoch]).permutation(len(sizes))
    steps: list[list[int]] = []
    room = 0
    for item in order.tolist():
        if not steps or sizes[item] > room:
            steps.append([])
            room = settings.batch_tokens
        steps[-1].append(item)
        room -= int(sizes[item])
    return [np.array(step, dtype=np.int64) for step in steps]


def held_out(group_of_N: Sequence[int] | IntArray, settings: Settings) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Trajectories of the groups that are not fitted, (N,): whole groups, so that no task is on both sides.

    None with a share of 0; with one group only, none either.
    """
    group = np.asarray(group_of_N)
    groups = np.unique(group)
    count = min(round(settings.held_out * len(groups)), len(groups) - 1)
    chosen = np.random.default_rng([settings.seed, 2**31]).permutation(groups)[: max(count, 0)]
    return np.isin(group, chosen)


def _put_back(module: torch.nn.Module, kept: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name in kept:
                parameter.copy_(kept[name])
