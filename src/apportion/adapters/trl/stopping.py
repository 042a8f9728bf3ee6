"""Listeners to the credit of a TRL run: their numbers, and how one of them ends it."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apportion.credit import Credit
from apportion.credit.listeners import Remembers, in_evaluation
from apportion.errors import ConfigError, StopRun

OnCredit = Callable[[Credit, int], Mapping[str, float] | None]
"""Called with the credit of a batch and the step; numbers that it returns join the metrics."""


def listeners_of(on_credit: OnCredit | Sequence[OnCredit]) -> tuple[OnCredit, ...]:
    """One listener or several, as a tuple.

    Raises:
        ConfigError: something of it cannot be called.
    """
    if callable(on_credit):
        return (on_credit,)
    several = tuple(on_credit) if isinstance(on_credit, Sequence) and not isinstance(on_credit, str) else (on_credit,)
    for one in several:
        if not callable(one):
            raise ConfigError(
                f"on_credit holds {one!r}, which cannot be called; give functions of a credit and a step, "
                'like TokenLog("runs/log") or LiveCheck()'
            )
    return several


def heard(listeners: Sequence[OnCredit], credit: Credit, step: int, *, training: bool) -> dict[str, Any]:
    """What the listeners say, and under "stopped" why one of them wants the run to end.

    All of them are called, so that a log has the batch for which a run was ended. Evaluations are heard and not
    remembered: they may be on other tasks, and several of their batches come in a row, so that they neither count
    towards the end of a run nor end it. Their credit has the note "batch": "evaluation".
    """
    out: dict[str, Any] = {}
    credit = credit if training else in_evaluation(credit)
    for listener in listeners:
        before = None if training or not isinstance(listener, Remembers) else copy.deepcopy(dict(listener.state()))
        try:
            out.update(listener(credit, step) or {})
        except StopRun as reason:
            out.update(reason.numbers)
            if training:
                out.setdefault("stopped", str(reason))
        if before is not None and isinstance(listener, Remembers):
            listener.restore(before)
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
