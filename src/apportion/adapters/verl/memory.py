"""What a method remembers of earlier batches, held by verl's trainer and kept in its checkpoints.

The trainer lives in one process, and its advantage stage sees every batch, so one memory is enough and nothing is sent.
It lies beside the dataloader's state in ``global_step_N`` before the file that names the newest checkpoint is written,
so a run that resumes there finds it. The older trainer's advantage stage is a function that is told no trainer, so it
asks for the one whose ``fit`` is running.
"""

from __future__ import annotations

import contextvars
import functools
from pathlib import Path
from typing import Any

from apportion.adapters.crediting import Crediting
from apportion.adapters.listening import read_listeners, write_listeners
from apportion.adapters.memory import read_memory, write_memory
from apportion.adapters.verl.settings import settings_of
from apportion.assign import remembers
from apportion.methods.pooled_memory import Memory


def remember(trainer: type[Any]) -> None:
    """Have a trainer class of verl save its memory with its checkpoints, and read it where it resumes."""
    trainer._save_checkpoint = _saved(trainer._save_checkpoint)
    trainer._load_checkpoint = _loaded(trainer._load_checkpoint)


_RUNNING: contextvars.ContextVar[Any] = contextvars.ContextVar("apportion_verl_trainer", default=None)


def remember_in_fit(trainer: type[Any] | None) -> None:
    """The same for a class of the older trainer, where it has the three methods that this takes."""
    if all(callable(getattr(trainer, name, None)) for name in ("fit", "_save_checkpoint", "_load_checkpoint")):
        assert trainer is not None
        remember(trainer)
        trainer.fit = _running(trainer.fit)


def running() -> Any:
    """The trainer whose `fit` called, None where nobody's did."""
    return _RUNNING.get()


def memory_of(trainer: Any) -> Memory:
    """What the trainer remembers, empty at first."""
    memory: Memory | None = getattr(trainer, "credit_memory", None)
    return Memory() if memory is None else memory


def _running(theirs: Any) -> Any:
    @functools.wraps(theirs)
    def fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = _RUNNING.set(self)
        try:
            return theirs(self, *args, **kwargs)
        finally:
            _RUNNING.reset(token)

    return fit


def _saved(theirs: Any) -> Any:
    @functools.wraps(theirs)
    def _save_checkpoint(self: Any, *args: Any, **kwargs: Any) -> Any:
        memory = memory_of(self)
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        if memory.tick:
            folder.mkdir(parents=True, exist_ok=True)
            write_memory(folder, memory)
        write_listeners(folder, _listeners(self.config.algorithm))
        return theirs(self, *args, **kwargs)

    return _save_checkpoint


def _loaded(theirs: Any) -> Any:
    @functools.wraps(theirs)
    def _load_checkpoint(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = theirs(self, *args, **kwargs)
        listeners, crediting = _listeners(self.config.algorithm), _remembering(self.config.algorithm)
        if self.global_steps and (crediting is not None or listeners):
            trainer = self.config.trainer
            whole = Path(trainer.default_local_dir) / f"global_step_{self.global_steps}"
            folder = Path(trainer.resume_from_path) if trainer.resume_mode == "resume_path" else whole
            read_listeners(folder, listeners)
            if crediting is not None:
                self.credit_memory = read_memory(folder, crediting)
        return out

    return _load_checkpoint


def _remembering(algorithm: Any) -> Crediting | None:
    """What remembers earlier batches; None where nothing does."""
    settings = settings_of(algorithm.adv_estimator, algorithm)
    if settings is None or not remembers(settings.crediting.method, settings.crediting.params):
        return None
    return settings.crediting


def _listeners(algorithm: Any) -> tuple[Any, ...]:
    settings = settings_of(algorithm.adv_estimator, algorithm)
    return () if settings is None or settings.on_credit is None else (settings.on_credit,)
