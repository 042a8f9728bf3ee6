"""What a command must not write over: the file that it reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from apportion.errors import ConfigError


def keep_inputs(out: Path, inputs: Iterable[Path]) -> None:
    """Raises ConfigError where ``out`` is one of the inputs, under whatever name. Ask before anything is read."""
    if out.exists() and any(path.exists() and out.samefile(path) for path in inputs):
        raise ConfigError(f"{out} is the input itself; give another name")
