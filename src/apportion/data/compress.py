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

BUFFER = 2**18
"""Bytes read at a time. A line of token ids has a hundred thousand, and one that is put together from several reads
costs four times as much as one that is found whole."""
UNPACKED = 2**16
"""The same of a packed file: what was read before the place of damage is not given, so it should be little."""
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
FREE, RATIO = 1 << 28, 200
"""A packed file may unpack to this many bytes whatever its size, and beyond that to this many times its size: logs pack
ten to fifty times, a bomb a thousand times and more."""


@contextmanager
def open_read(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """The plain bytes of a file.

    Raises:
        FormatError: no such file, or it cannot be opened. While it is read: it unpacks to far more than any log would.
        MissingExtra: a Zstandard file, and pyarrow is not installed.
    """
    try:
        raw = cast(io.BufferedReader, open(path, "rb", buffering=BUFFER))  # noqa: SIM115 -- closed by the stack below
    except FileNotFoundError:
        raise FormatError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        inside = sorted(one for one in os.listdir(path) if not one.startswith((".", "_")))
        example = f", e.g. {os.path.join(path, inside[-1])}" if inside else ""
        raise FormatError(f"{path}: a folder, and one file is read here; name a file in it{example}") from None
    except OSError as error:
        raise FormatError(f"{path}: cannot be opened ({error.strerror})") from None
    with contextlib.ExitStack() as stack:
        stack.enter_context(raw)
        head = raw.peek(4)[:4]
        if head.startswith(GZIP):
            unpacked: Any = stack.enter_context(gzip.GzipFile(fileobj=raw, mode="rb"))
            yield io.BufferedReader(_Guarded(unpacked, raw, path), UNPACKED)
        elif head.startswith(ZSTD):
            pa = _arrow("reading a .zst file")
            native = stack.enter_context(pa.CompressedInputStream(raw, "zstd"))
            yield io.BufferedReader(_Guarded(native, raw, path), UNPACKED)
        else:
            yield raw


class _Guarded(io.RawIOBase):
    """Unpacked bytes, as long as they are in proportion to the packed ones."""

    def __init__(self, unpacked: Any, packed: BinaryIO, path: str | os.PathLike[str]) -> None:
        self._unpacked, self._packed, self._path = unpacked, packed, path
        self._given = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._unpacked.seekable())

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._unpacked.seek(offset, whence))

    def tell(self) -> int:
        return int(self._unpacked.tell())

    def readinto(self, buffer: Any) -> int:
        data = self._unpacked.read(len(buffer))
        self._given += len(data)
        if self._given > FREE and self._given > RATIO * self._packed.tell():
            raise FormatError(
                f"{self._path}: unpacks to more than {RATIO} times its size, as no log does; "
                "unpack it yourself if you trust it"
            )
        buffer[: len(data)] = data
        return len(data)


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
