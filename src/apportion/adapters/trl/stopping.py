"""Listeners to the credit of a TRL run: their numbers, and how one of them ends it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apportion.credit import Credit
from apportion.errors import StopRun

OnCredit = Callable[[Credit, int], Mapping[str, float] | None]
"""Called with the credit of a batch and the step; numbers that it returns join the metrics."""


def heard(listeners: Sequence[OnCredit], credit: Credit, step: int) -> dict[str, Any]:
    """What the listeners say, and under "stopped" why one of them wants the run to end.

    All of them are called, so that a log has the batch for which a run was ended.
    """
    out: dict[str, Any] = {}
    for listener in listeners:
        try:
            out.update(listener(credit, step) or {})
        except StopRun as reason:
            out.update(reason.numbers)
            out.setdefault("stopped", str(reason))
    return out


def stop(trainer: Any, reason: str | None, *, listened: bool) -> None:
    """End the run in every process, after the update in progress: the main process alone has called the listeners."""
    if not listened:
        return
    accelerator = trainer.accelerator
    if accelerator.num_processes > 1:
        from accelerate.utils import broadcast_object_list

        sent = [reason if accelerator.is_main_process else None]
        broadcast_object_list(sent)
        (reason,) = sent
    if reason is None:
        return
    trainer.credit_stopped = reason
    trainer.control.should_training_stop = True
    if accelerator.is_main_process:
        warnings.warn(reason, stacklevel=2)
