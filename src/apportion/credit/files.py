"""Credit files: the rollouts and their credit together, so that one file can be viewed, checked and trained on.

    {"schema": "apportion.credit/1", "method": "gigpo", "params": {…}, "level": "step", "parts": ["episode", "step"], …}
    {"trajectory": {"id": "7", "steps": […]}, "advantage": [0.5, -0.1], "parts": {…}, "tokens": [[-1, 9], [0, 3]], …}

JSONL has one line per trajectory, Parquet one row with the same fields beside the columns of the rollout (older files
have it as JSON text). ``tokens`` are runs (unit, length) over the trajectory's tokens, unit -1 where nothing was
sampled; ``step`` is the first step of each unit. ``known`` and ``train`` are left out where all units are,
``train_tokens`` (one flag per token) where the credit has no mask of tokens. Both files give the same `Credit` back,
bit by bit; sequences inside params and options come back as tuples.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

from apportion.credit.columns_read import is_columns, read_columns
from apportion.credit.credit import Credit
from apportion.credit.parquet import is_parquet, read_rows, write_rows
from apportion.credit.rebuild import plan_units
from apportion.credit.rows import header_of, json_row, rows_of
from apportion.credit.rows_read import checked_header, credit_from
from apportion.data.atomic import atomic_write
from apportion.data.compress import compressed, open_read
from apportion.data.jsonl import LONGEST_LINE, parse
from apportion.data.record import to_json
from apportion.errors import ConfigError, DataError, FormatError, missing_extra

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")


def check_credit_path(path: str | os.PathLike[str]) -> str:
    """The path as text. For asking before long work.

    Raises:
        ConfigError: `write_credit` does not know its ending.
        MissingExtra: Parquet or Zstandard, and pyarrow is not installed.
    """
    name = os.fspath(path)
    if not name.endswith(SUFFIXES):
        raise ConfigError(f"{name}: a credit file ends in {', '.join(SUFFIXES)}; choose one of these names")
    if name.endswith((".parquet", ".zst")) and not _has_arrow():
        what = "Parquet" if name.endswith(".parquet") else "a .zst file"
        raise missing_extra(f"writing {what}", "pyarrow", "parquet", instead="give a name that ends in .jsonl")
    return name


def _has_arrow() -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def write_credit(path: str | os.PathLike[str], credit: Credit) -> None:
    """Write credit with its rollouts; the file is whole or absent.

    Args:
        path: ends in .jsonl, .jsonl.gz, .jsonl.zst or .parquet, which decides the format.
        credit: what `apportion.assign` returned.

    Raises:
        ConfigError: another ending.
        DataError: the credit holds what JSON cannot keep.
        MissingExtra: Parquet or Zstandard, and pyarrow is not installed.
    """
    name = check_credit_path(path)
    if not isinstance(credit, Credit):
        raise DataError(f"write_credit writes a Credit, got {type(credit).__name__}; call apportion.assign first")
    plan = plan_units(credit.units)
    header, rows = header_of(credit, plan), rows_of(credit, plan)
    if name.endswith(".parquet"):
        write_rows(path, to_json(header, "header"), header["parts"], rows, credit.units.batch)
        return
    with atomic_write(path) as plain, compressed(plain, name) as file:
        file.write(to_json(header, "header").encode() + b"\n")
        for n, row in enumerate(rows):
            file.write(to_json(json_row(n, row), f"trajectory {n}").encode() + b"\n")


def read_credit(path: str | os.PathLike[str]) -> Credit:
    """Read what `write_credit` wrote, or `apportion assign` for a folder; the bytes say which format it is.

    A file of a folder holds no rollouts: they are read from where they were, seen from the file.

    Raises:
        FormatError: file, place and reason: not a credit file, cut short, changed, or of a newer schema.
        MissingExtra: Parquet or Zstandard, and pyarrow is not installed.
    """
    with open_read(path) as file:
        if is_parquet(file):
            if is_columns(path):
                return read_columns(path)
            text, rows = read_rows(path, file)
            header = checked_header(parse(text.encode("utf-8"), f"{path}, metadata"), f"{path}, metadata")
            return credit_from(header, rows, path)
        lines = _lines(file, path)
        first = next(lines, None)
        if first is None:
            raise FormatError(f"{path}: an empty file; a credit file starts with a header")
        header = checked_header(first[1], first[0])
        return credit_from(header, lines, path)


def _lines(file: BinaryIO, path: str | os.PathLike[str]) -> Iterator[tuple[str, Any]]:
    number = 0
    while True:
        number += 1
        at = f"{path}, line {number}"
        try:
            line = file.readline(LONGEST_LINE + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise FormatError(f"{at}: the compressed data are damaged ({error}); write the file again") from None
        if not line:
            return
        if len(line) > LONGEST_LINE:
            raise FormatError(f"{at}: longer than {LONGEST_LINE >> 20} MiB; give one trajectory per line")
        if line.strip():
            yield at, parse(line.removeprefix(b"\xef\xbb\xbf"), at, line.endswith(b"\n"))
