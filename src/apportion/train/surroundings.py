"""What must be as it was for a run to go on to equal numbers: its settings, and those of torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from apportion.errors import CheckpointError
from apportion.train.config import TrainConfig

FREE = (
    "iterations",
    "token_budget",
    "eval_every",
    "checkpoint_every",
    "keep",
    "dump_every",
    "tensorboard",
    "out",
    "threads",
)
"""What may differ between a run and its continuation."""


def same_settings(was: TrainConfig, now: TrainConfig) -> None:
    """Refuse to go on with other settings than a run was started with, but for those in `FREE`."""
    before, after = was.to_mapping(), now.to_mapping()
    for name in before:
        if name not in FREE and before[name] != after[name]:
            raise CheckpointError(
                f"{now.out} was started with {name} = {before[name]!r} and is resumed with {after[name]!r}; "
                f"give the old value, or start a new run in another folder"
            )


@contextlib.contextmanager
def torch_settings(config: TrainConfig) -> Iterator[None]:
    """Threads and deterministic algorithms as a run wants them; afterwards as they were."""
    threads = torch.get_num_threads()
    strict, warn = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_num_threads(config.threads)
    torch.use_deterministic_algorithms(True, warn_only=config.device != "cpu")
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(strict, warn_only=warn)
