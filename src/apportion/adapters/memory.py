"""What a method remembers of earlier batches, as a host adapter keeps it: a value, and a file in each checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from apportion.adapters.crediting import Crediting
from apportion.assign import check_expression, news_and_credit, remembers
from apportion.assign.expression import leaves
from apportion.credit import Credit
from apportion.data import Batch
from apportion.data.atomic import atomic_write
from apportion.errors import DataError
from apportion.methods import get
from apportion.methods.pooled_memory import Memory

FILE = "credit_memory.json"


def credit_and_memory(crediting: Crediting, batch: Batch, memory: Memory) -> tuple[Credit, Memory]:
    """Credit of a batch of whole groups, and the memory for the next.

    The memory comes back as it was for a method that remembers nothing, and where nobody scored any rollout.
    """
    if not remembers(crediting.method, crediting.params) or not batch.scored_N.any():
        return crediting.credit(batch), memory
    credit, news = news_and_credit(crediting.method, crediting.units(batch), memory, **crediting.params)
    return credit, memory.merge(news).trimmed()


def write_memory(folder: Path, memory: Memory) -> None:
    """Into a checkpoint's folder, whole or not at all; an empty memory leaves no file."""
    if memory.tick:
        with atomic_write(folder / FILE) as file:
            file.write(json.dumps(memory.to_mapping()).encode())


def read_memory(folder: Path, crediting: Crediting) -> Memory:
    """That of a checkpoint; an empty one where it has none.

    Raises:
        DataError: no JSON, of another version, or of another discount than the method's.
    """
    path = folder / FILE
    if not path.is_file():
        return Memory()
    try:
        memory = Memory.from_mapping(json.loads(path.read_text(encoding="utf-8")))
        for leaf in leaves(check_expression(crediting.method, crediting.params)):
            spec = get(leaf.name)
            if spec.carry is not None and "gamma" in spec.defaults:
                memory.check_gamma(spec.bind(leaf.params)["gamma"])
        return memory
    except (ValueError, DataError) as problem:
        raise DataError(f"{path}: {problem}; remove the file to start without a memory") from None
