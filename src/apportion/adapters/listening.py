"""What listeners to the credit remember, as a host adapter keeps it: a file in each checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from apportion.credit.listeners import restore_states, states_of
from apportion.data.atomic import atomic_write
from apportion.errors import DataError

FILE = "credit_listeners.json"


def write_listeners(folder: Path, listeners: Sequence[Any]) -> None:
    """Into a checkpoint's folder, whole or not at all; listeners without a memory leave no file."""
    if states := states_of(listeners):
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / FILE) as file:
            file.write(json.dumps(states).encode())


def read_listeners(folder: Path, listeners: Sequence[Any]) -> None:
    """Let listeners go on from a checkpoint; one without the file leaves them as they are.

    Raises:
        DataError: the file cannot be read, or is of another version.
    """
    path = folder / FILE
    if not path.is_file():
        return
    try:
        restore_states(listeners, json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError) as problem:
        raise DataError(f"{path}: {problem!r}; remove the file to let the live checks begin anew") from None
