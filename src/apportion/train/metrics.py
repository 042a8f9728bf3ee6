"""Metrics of a run: one JSON object a line, and TensorBoard's event files from the same numbers."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from apportion.errors import CheckpointError, FormatError


class MetricsLog:
    """Appends lines to ``metrics.jsonl``.

    A line holds the iteration, nested tables of numbers, and under "seconds" what depends on the machine: two runs
    of one configuration write equal lines but for that.

    Args:
        folder: run folder.
        size: bytes to keep of what is there; later lines were written after the checkpoint that is resumed from.
        iteration: first iteration that will be written. tensorboard: event files too.
    """

    def __init__(self, folder: Path, *, size: int = 0, iteration: int = 0, tensorboard: bool = True) -> None:
        self.path = folder / "metrics.jsonl"
        there = self.path.stat().st_size if self.path.exists() else 0
        if there < size:
            raise CheckpointError(
                f"{self.path} is shorter than at the checkpoint ({there} < {size} bytes); it was changed"
            )
        self._file = self.path.open("ab")
        self._file.truncate(size)
        self._board: Any = None
        if tensorboard:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=iteration or None)

    @property
    def size(self) -> int:
        """Bytes written, safe on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def write(self, iteration: int, line: Mapping[str, Any]) -> None:
        """Add one line."""
        record = {"iteration": iteration, **line}
        self._file.write(json.dumps(_finite(record)).encode() + b"\n")
        self._file.flush()
        if self._board is not None:
            for name, value in _flat(line):
                self._board.add_scalar(name, value, iteration)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_metrics(path: str | Path) -> list[dict[str, Any]]:
    """All lines of a ``metrics.jsonl``, also of a run that is still going."""
    file = Path(path)
    lines = []
    for number, line in enumerate(file.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break  # being written
        try:
            lines.append(json.loads(line))
        except ValueError as error:
            raise FormatError(f"{path}, line {number}: not JSON ({error}); the file was changed") from None
    return lines


def _flat(line: Mapping[str, Any], at: str = "") -> list[tuple[str, float]]:
    out: list[tuple[str, float]] = []
    for key, value in line.items():
        if isinstance(value, Mapping):
            out += _flat(value, f"{at}{key}/")
        elif isinstance(value, int | float):
            out.append((f"{at}{key}", float(value)))
    return out


def _finite(value: Any) -> Any:
    """JSON has no NaN: null."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
