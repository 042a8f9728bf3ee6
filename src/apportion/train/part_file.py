"""A file of work under way: settings, then a row for each piece that is done. What was written survives kill -9."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

from apportion.errors import CheckpointError, ConfigError


class PartFile:
    """Rows of work under way, beside the file that they will become; with ``out=None`` in memory only.

    Args:
        out: the file to be. told: what the work depends on; rows of other work are refused.
        resume: go on with the rows that are there; without any, from the start.

    Attributes:
        rows: what is done, in order.

    Raises:
        ConfigError: rows are there and ``resume`` was not said; resume without a file; a folder that does not exist.
        CheckpointError: rows of other work.
    """

    def __init__(self, out: str | Path | None, told: Mapping[str, Any], *, resume: bool = False) -> None:
        self.rows: list[Any] = []
        self.told = json.loads(json.dumps(dict(told)))
        self._file: BinaryIO | None = None
        self._size = 0
        if out is None:
            if resume:
                raise ConfigError("resume needs the file of the work that was stopped; give out")
            self.path = None
            return
        target = Path(out)
        if not target.parent.is_dir():
            raise ConfigError(f"{out}: the folder {target.parent} does not exist; create it first")
        self.path = target.with_name(f".{target.name}.part")
        if not self.path.exists():
            return
        if not resume:
            raise ConfigError(f"{self.path} holds a part of {target.name}; resume, or remove it")
        self._take_over(self.path)

    def _take_over(self, path: Path) -> None:
        """Rows that are whole; a line that was torn off is dropped."""
        data = path.read_bytes()
        lines = data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]
        try:
            first, *rows = [json.loads(line) for line in lines] or [self.told]
        except ValueError as problem:
            raise CheckpointError(f"{path} cannot be read ({problem}); remove it and start again") from None
        if first != self.told:
            other = [name for name in self.told if not isinstance(first, dict) or first.get(name) != self.told[name]]
            raise CheckpointError(
                f"{path} is of other work ({', '.join(other) or 'settings'} differ); give what it was started with, or "
                "remove it"
            )
        self.rows, self._size = rows, sum(len(line) + 1 for line in lines)

    def __enter__(self) -> Self:
        if self.path is not None:
            self._file = self.path.open("r+b" if self.path.exists() else "wb")
            self._file.truncate(self._size)
            self._file.seek(self._size)
            if not self._size:
                self._write([self.told])
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, rows: Sequence[Any]) -> None:
        """Take in what was done, on the disk too."""
        self.rows += rows
        self._write(rows)

    def remove(self) -> None:
        """The work is done, and its file written."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _write(self, rows: Sequence[Any]) -> None:
        if self._file is not None:
            self._file.write(b"".join(json.dumps(row, allow_nan=False).encode() + b"\n" for row in rows))
            self._file.flush()
            os.fsync(self._file.fileno())
