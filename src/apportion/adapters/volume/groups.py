"""Do the files hold whole groups, each group's rows together? Answered from the column of groups alone.

Names are kept as 8-byte digests in files, one pass over which looks at a range of them at a time, so that memory does
not grow with the number of groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from apportion.adapters.volume.chunks import open_parquet, run_starts
from apportion.adapters.volume.sources import Source
from apportion.data.columnar import arrow, first_line
from apportion.errors import DataError, FormatError
from apportion.numerics import IntArray

AT_A_TIME = 1 << 22
"""Digests that are sorted at a time, 16 bytes each."""
ROWS = 1 << 16


def scan_groups(path: str, spill: str) -> dict[str, int]:
    """Write the digest of each group of a file, one for every run of its rows; the number of rows and of runs.

    Raises:
        FormatError: the file cannot be read, or is not of our schema.
    """
    pa, pq = arrow("reading Parquet", "parquet")
    file = open_parquet(pa, pq, path)
    rows = runs = 0
    last: str | None = None
    with open(spill, "wb") as out:
        for group in _groups(pa, file, path):
            rows += len(group)
            starts = run_starts(group)
            names = group.take(pa.array(starts)).to_pylist()
            runs += len(names) - (names[0] is not None and names[0] == last)
            told = [name for k, name in enumerate(names) if name is not None and (k or name != last)]
            np.array([group_digest(name) for name in told], dtype=np.uint64).tofile(out)
            last = group[len(group) - 1].as_py()
    return {"rows": rows, "groups": runs}


def check_whole(sources: Sequence[Source], spills: Sequence[Path], given: str) -> None:
    """Raise unless no digest occurs twice.

    Raises:
        DataError: a group is in two files, or its rows are not together in one.
    """
    sizes = [spill.stat().st_size // 8 for spill in spills]
    passes = -(-sum(sizes) // AT_A_TIME) or 1
    width = 2**64 // passes
    for k in range(passes):
        lo, hi = k * width, 2**64 if k == passes - 1 else (k + 1) * width
        digests, owner = _range(spills, sizes, lo, hi)
        order = np.argsort(digests, kind="stable")
        twice = digests[order][1:][digests[order][1:] == digests[order][:-1]]
        for digest in np.unique(twice).tolist():
            _check_names(digest, [sources[n] for n in np.unique(owner[digests == digest]).tolist()], given)


def _check_names(digest: int, where: Sequence[Source], given: str) -> None:
    """Raise where two runs with this digest have one name; digests of two names may be equal."""
    before: dict[str, Source] = {}
    for source in where:
        for name in _runs_of(digest, source.path):
            if name in before:
                raise DataError(_sentence(name, before[name], source, given))
            before[name] = source


def _sentence(name: str, a: Source, b: Source, given: str) -> str:
    where = (
        f"{a.path}: the rows of group {name!r} do not stand together"
        if a == b
        else f"group {name!r} is split between {a.path} and {b.path}"
    )
    return (
        f"{where}, so it cannot be credited file by file; `apportion convert {given} --out grouped/` writes files "
        "that hold whole groups, credit those"
    )


def _range(spills: Sequence[Path], sizes: Sequence[int], lo: int, hi: int) -> tuple[Any, IntArray]:
    digests, owners = [], []
    for k, (spill, size) in enumerate(zip(spills, sizes, strict=True)):
        for first in range(0, size, AT_A_TIME):
            part = np.fromfile(spill, dtype=np.uint64, count=min(AT_A_TIME, size - first), offset=8 * first)
            part = part[(part >= np.uint64(lo)) & (part <= np.uint64(hi - 1))]
            digests.append(part)
            owners.append(np.full(len(part), k, dtype=np.int32))
    if not digests:
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int32)
    return np.concatenate(digests), np.concatenate(owners)


def _runs_of(digest: int, path: str) -> Iterator[str]:
    """The name of every run of rows whose group has this digest."""
    pa, pq = arrow("reading Parquet", "parquet")
    last: str | None = None
    for group in _groups(pa, open_parquet(pa, pq, path), path):
        names = group.take(pa.array(run_starts(group))).to_pylist()
        told = names[1:] if names[0] == last else names
        last = group[len(group) - 1].as_py()
        yield from (name for name in told if name is not None and group_digest(name) == digest)


def _groups(pa: Any, file: Any, path: str) -> Any:
    """The column of groups in pieces, none of them empty."""
    if "group" not in file.schema_arrow.names:
        for first in range(0, file.metadata.num_rows, ROWS):
            yield pa.nulls(min(ROWS, file.metadata.num_rows - first), pa.string())
        return
    try:
        for batch in file.iter_batches(batch_size=ROWS, columns=["group"], use_threads=False):
            if len(batch):
                yield batch.column(0).cast(pa.string())
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{path}: damaged ({first_line(error)})") from None


def group_digest(name: str) -> int:
    """Eight bytes for a group's name, the same everywhere."""
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8"), digest_size=8).digest(), "little")
