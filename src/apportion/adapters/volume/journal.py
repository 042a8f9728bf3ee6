"""What a run has done: one line for the run, one for each finished file, in a file that only grows.

The lines of a killed run are whole but for the last, which is then left out. The first line says what is done to the
files; a run with another first line is another run and is refused.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from apportion.errors import ConfigError, FormatError

NAME = "_apportion.jsonl"


class Journal:
    """The journal of one folder; open it with `journal`.

    Attributes:
        done: what was kept of each finished piece of work, by name.
    """

    def __init__(self, file: BinaryIO, done: dict[str, dict[str, Any]]) -> None:
        self._file, self.done = file, done

    def add(self, entry: Mapping[str, Any]) -> None:
        """Keep that a piece of work is finished; its name is ``entry["name"]``."""
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.done[str(entry["name"])] = dict(entry)


@contextlib.contextmanager
def journal(folder: Path, run: Mapping[str, Any]) -> Iterator[Journal]:
    """Go on with the journal of a folder, or begin it.

    Raises:
        ConfigError: it is of another run, or another process is at it.
        FormatError: it is no journal.
    """
    path = folder / NAME
    run = json.loads(json.dumps(run))
    with open(path, "a+b") as file:
        _lock(file, folder)
        file.seek(0)
        lines = file.read().split(b"\n")
        if lines[-1]:  # the process died while it wrote this line
            file.truncate(file.tell() - len(lines[-1]))
        entries = [_line(line, path, k) for k, line in enumerate(lines[:-1], start=1)]
        if entries:
            _check_same(entries[0], run, folder)
        out = Journal(file, {str(entry["name"]): entry for entry in entries[1:]})
        if not entries:
            file.write(json.dumps(run).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        yield out


def _line(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        entry = json.loads(line)
        if isinstance(entry, dict) and (number == 1 or "name" in entry):
            return entry
    except ValueError:
        pass
    raise FormatError(f"{path}, line {number}: not a line of a journal; remove the folder and begin anew")


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    for key in dict.fromkeys([*before, *now]):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            _check_same(old, new, folder)
        elif old != new:
            raise ConfigError(
                f"{folder} was begun with {key} {json.dumps(old)}, now it is {json.dumps(new)}; go on with the former, "
                "or give another folder"
            )


def _lock(file: BinaryIO, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # another system: two runs at a time are not noticed there
        return
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ConfigError(f"{folder}: another run is writing there; wait for it, or give another folder") from None
