"""The second half: the rows of one shard from all runs, group by group, into one Parquet file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from apportion.adapters.volume.chunks import groups_of
from apportion.adapters.volume.spool import run_batch
from apportion.data.columnar import arrow, schema_of
from apportion.data.parquet import parquet_writer
from apportion.numerics import IntArray

SLICE_BYTES = 1 << 25
"""Rows are gathered and written about this many bytes at a time; all others lie on the disk."""
LARGEST_SLICE = 8192


def merge_shard(spool: str, runs: Sequence[str], shard: int, target: str) -> dict[str, int]:
    """Write one shard; groups in order of first appearance, rows of a group in theirs. No file where it is empty.

    Args:
        spool: folder of the runs. runs: their names, in the order of the inputs. target: the file to write.
    """
    pa, _ = arrow("writing Parquet", "parquet")
    parts = [part for run in runs if (part := run_batch(pa, Path(spool) / run, shard)) is not None]
    if not parts:
        return {"rows": 0, "groups": 0, "written_bytes": 0}
    table = pa.Table.from_batches(parts, schema=schema_of(pa))
    group_of = _group_of(groups_of(pa, table).combine_chunks())
    order = np.argsort(group_of, kind="stable")
    rows = int(min(max(SLICE_BYTES * len(order) // max(table.nbytes, 1), 1), LARGEST_SLICE))
    with parquet_writer(target) as writer:
        for first in range(0, len(order), rows):
            writer.write_table(table.take(pa.array(order[first : first + rows])).combine_chunks())
    size = Path(target).stat().st_size
    return {"rows": len(order), "groups": int(group_of.max()) + 1, "written_bytes": size}


def _group_of(group: Any) -> IntArray:
    """Number of each row's group, in order of first appearance; a row without a group has its own."""
    coded = group.dictionary_encode()
    code = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    alone = code < 0
    key = np.where(alone, len(coded.dictionary) + np.cumsum(alone), code)
    _, first, label = np.unique(key, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    out: IntArray = rank[label]
    return out
