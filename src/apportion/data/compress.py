"""Compressed files read and written as if they were plain: gzip, and Zstandard where pyarrow is installed.

What a file is, its first bytes say; its name only decides how a new one is written.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from apportion.errors import FormatError, missing_extra

BUFFER = 2**16
"""Bytes read at a time: a line of token ids has many times the 8 KiB that Python takes by itself."""
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@contextmanager
def open_read(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The plain bytes of a file.

    Raises:
        FormatError: no such file, or it cannot be opened.
        MissingExtra: a Zstandard file, and pyarrow is not installed.
    """
    try:
        raw = cast(io.BufferedReader, open(path, "rb", buffering=BUFFER))  # noqa: SIM115 -- closed by the stack below
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file; check the path") from None
    except OSError as error:
        raise FormatError(f"{path}: cannot be opened ({error.strerror})") from None
    with contextlib.ExitStack() as stack:
        stack.enter_context(raw)
        head = raw.peek(4)[:4]
        if head.startswith(GZIP):
            yield cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=raw, mode="rb")))
        elif head.startswith(ZSTD):
            pa = _arrow("reading a .zst file")
            native = stack.enter_context(pa.CompressedInputStream(raw, "zstd"))
            yield cast(BinaryIO, stack.enter_context(io.BufferedReader(native)))
        else:
            yield raw


@contextmanager
def compressed(file: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """Bytes written here reach ``file`` compressed as the end of ``name`` says."""
    if name.endswith(".gz"):
        # no time and no name inside, so that equal rollouts make equal files
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
            yield cast(BinaryIO, packed)
    elif name.endswith(".zst"):
        pa = _arrow("writing a .zst file")
        with pa.CompressedOutputStream(_LeftOpen(file), "zstd") as stream:
            yield stream
    else:
        yield file


class _LeftOpen(io.RawIOBase):
    """Passes bytes on and lets go of the file without closing it, which whoever opened it will do."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)


def _arrow(what: str) -> Any:
    try:
        import pyarrow as pa
    except ImportError:
        raise missing_extra(what, "pyarrow", "parquet") from None
    return pa
