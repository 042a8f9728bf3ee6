"""What a method remembers of earlier batches, kept by TRL's trainer and beside its checkpoints.

Every process credits the same gathered rows, so each holds the same memory and nothing is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apportion.adapters.crediting import Crediting
from apportion.adapters.listening import read_listeners, write_listeners
from apportion.adapters.memory import credit_and_memory, read_memory, write_memory
from apportion.credit import Credit
from apportion.data import Batch


def credit_of(trainer: Any, crediting: Crediting, batch: Batch) -> Credit:
    """Credit with the trainer's memory, for a method that has one; evaluations use it and add nothing."""
    credit, after = credit_and_memory(crediting, batch, trainer.credit_memory)
    if trainer.model.training:
        trainer.credit_memory = after
    return credit


def keep(trainer: Any, listeners: Sequence[Any] = ()) -> None:
    """Write the memory, and what listeners remember, into the checkpoint that was just made."""
    if trainer.accelerator.is_main_process:
        folder = Path(trainer._get_output_dir(trial=None)) / f"checkpoint-{trainer.state.global_step}"
        if folder.is_dir():
            write_memory(folder, trainer.credit_memory)
            write_listeners(folder, listeners)


def recall(trainer: Any, checkpoint: str, listeners: Sequence[Any] = ()) -> None:
    """Take over the memory of a checkpoint; one without a memory is of a method that has none. Listeners likewise.

    Raises:
        DataError: the file cannot be read, is of another version, or of another discount than the method's.
    """
    trainer.credit_memory = read_memory(Path(checkpoint), trainer._crediting)
    read_listeners(Path(checkpoint), listeners)
