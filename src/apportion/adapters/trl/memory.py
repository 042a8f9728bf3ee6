"""What a method remembers of earlier batches, kept by the trainer and beside its checkpoints.

Every process credits the same gathered rows, so each holds the same memory and nothing is sent.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from apportion.adapters.crediting import Crediting
from apportion.assign import news_and_credit, remembers
from apportion.credit import Credit
from apportion.data import Batch
from apportion.data.atomic import atomic_write
from apportion.methods.pooled_memory import Memory

FILE = "credit_memory.json"


def credit_of(trainer: Any, crediting: Crediting, batch: Batch) -> Credit:
    """Credit with the trainer's memory, for a method that has one; evaluations use it and add nothing."""
    if not remembers(crediting.method, crediting.params) or not batch.scored_N.any():
        return crediting.credit(batch)
    memory: Memory = trainer.credit_memory
    credit, news = news_and_credit(crediting.method, crediting.units(batch), memory, **crediting.params)
    if trainer.model.training:
        trainer.credit_memory = memory.merge(news).trimmed()
    return credit


def keep(trainer: Any) -> None:
    """Write the memory into the checkpoint that was just made."""
    if trainer.credit_memory.tick and trainer.accelerator.is_main_process:
        folder = Path(trainer._get_output_dir(trial=None)) / f"checkpoint-{trainer.state.global_step}"
        if folder.is_dir():
            with atomic_write(folder / FILE) as file:
                file.write(json.dumps(trainer.credit_memory.to_mapping()).encode())


def recall(trainer: Any, checkpoint: str) -> None:
    """Read the memory of a checkpoint; one without a memory is of a method that has none.

    Raises:
        DataError: the memory is of another version.
    """
    path = Path(checkpoint) / FILE
    if path.is_file():
        trainer.credit_memory = Memory.from_mapping(json.loads(path.read_text(encoding="utf-8")))
