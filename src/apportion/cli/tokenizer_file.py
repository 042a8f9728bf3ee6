"""A tokenizer named on the command line: its folder, or its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apportion.errors import ConfigError, DataError, missing_extra


def read_tokenizer(path: Path, who: str) -> Any:
    """A `tokenizers.Tokenizer` from ``tokenizer.json``, for the command ``who``.

    Raises:
        ConfigError: no such file. MissingExtra: without the package. DataError: something else is in it.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise ConfigError(f"{path}: no tokenizer.json there; give the tokenizer's folder or file")
    try:
        from tokenizers import Tokenizer
    except ImportError as problem:
        raise missing_extra(who, "tokenizers", "train") from problem
    try:
        return Tokenizer.from_file(str(file))
    except Exception as problem:  # the library raises bare exceptions for whatever is wrong in the file
        raise DataError(f"{file}: not a tokenizer ({problem}); give the policy's tokenizer.json") from None
