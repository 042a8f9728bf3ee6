"""The first half of making files of whole groups: rows of one input, sorted by shard, beside each other on the disk.

A *run* is as many rows as are held at a time, written as an Arrow file with one record batch for each shard that has
rows in it, and a file of their numbers. Every group belongs to one shard.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from apportion.adapters.volume.chunks import batches, groups_of, joined, open_parquet
from apportion.adapters.volume.groups import group_digest
from apportion.data.columnar import OLD_COLUMNS, arrow, schema_of
from apportion.data.columnar_read import renewed
from apportion.data.columnar_write import record_batches
from apportion.errors import FormatError
from apportion.numerics import IntArray

RUN_BYTES = 1 << 26
"""A run ends at this many bytes in memory."""
ROWS, WEIGHT = 1024, 1 << 21
"""Trajectories, or tokens and characters, that become columns at a time."""


def spool_file(
    path: str,
    spool: str,
    number: int,
    shards: int,
    form: str | None,
    group_by: str | None,
    outcome: str | None,
    skip_bad: bool,
) -> dict[str, Any]:
    """Sort the rows of one input into runs.

    Returns:
        Rollouts, rows that were left out, runs, and what the reader could not know.

    Raises:
        ApportionError: the input cannot be read.
    """
    pa, _ = arrow("writing Parquet", "parquet")
    told: dict[str, Any] = {"skipped": 0, "remarks": []}
    rows = runs = 0
    for run in _runs(pa, _batches(pa, path, form, group_by, outcome, skip_bad, told)):
        _write_run(pa, run, Path(spool) / f"{number:06d}-{runs:05d}", shards, rows)
        rows, runs = rows + len(run), runs + 1
    return {"rollouts": rows, "runs": runs, **told}


def run_batch(pa: Any, run: Path, shard: int) -> Any | None:
    """The rows of one shard in a run, as they lie on the disk; None where there are none."""
    shards = np.load(run.with_suffix(".npy"), allow_pickle=False)
    at = int(np.searchsorted(shards, shard))
    if at == len(shards) or shards[at] != shard:
        return None
    return pa.ipc.open_file(pa.memory_map(str(run.with_suffix(".arrow")))).get_batch(at)


def _batches(
    pa: Any,
    path: str,
    form: str | None,
    group_by: str | None,
    outcome: str | None,
    skip_bad: bool,
    told: dict[str, Any],
) -> Iterator[Any]:
    """Record batches of our schema. Parquet of ours stays columns; anything else is read as trajectories."""
    schema = schema_of(pa)
    plain = form is None and group_by is None and outcome is None
    if plain and path.endswith(".parquet") and (file := _ours(path)) is not None:
        for batch in batches(pa, file, path, None, size=RUN_BYTES):
            yield aligned(pa, schema, batch, path)
        return
    from apportion.adapters.readers import read_any

    reading = read_any(Path(path), form, group_by=group_by, outcome=outcome, skip_bad=skip_bad)
    yield from record_batches(pa, schema, reading.trajectories, rows=ROWS, weight=WEIGHT)
    told["skipped"] = reading.report.skipped.count
    told["remarks"] = reading.report.remarks()


def _ours(path: str) -> Any | None:
    pa, pq = arrow("reading Parquet", "parquet")
    try:
        return open_parquet(pa, pq, path)
    except FormatError:
        return None  # a foreign Parquet, perhaps; its reader says what is wrong if not


def aligned(pa: Any, schema: Any, batch: Any, path: str) -> Any:
    """The batch with all columns of the schema, in its order; null where the file has none."""
    if batch.schema.equals(schema):
        return batch
    steps = batch.column("steps")
    if steps.null_count:
        raise FormatError(f"{path}: a row has no steps; a rollout that did nothing is one step with an empty action")
    nested = schema.field("steps").type
    flat = steps.flatten()
    given = dict(zip([field.name for field in flat.type], flat.flatten(), strict=True))
    if OLD_COLUMNS in given:
        given["columns"] = renewed(pa, given[OLD_COLUMNS], path)
    inner = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(len(flat), field.type)
        for field in nested.value_type
    ]
    offset = np.append(0, np.cumsum(steps.value_lengths().to_numpy(zero_copy_only=False))).astype(np.int32)
    struct = pa.StructArray.from_arrays(inner, fields=list(nested.value_type))
    columns = {"steps": pa.ListArray.from_arrays(offset, struct, type=nested)}
    for field in schema:
        if field.name in batch.schema.names and field.name != "steps":
            columns[field.name] = batch.column(field.name).cast(field.type)
    arrays = [columns.get(field.name, pa.nulls(len(batch), field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _runs(pa: Any, parts: Iterable[Any]) -> Iterator[Any]:
    waiting: list[Any] = []
    size = 0
    for batch in parts:
        if len(batch):
            waiting.append(batch)
            size += batch.nbytes
        if size >= RUN_BYTES:
            yield joined(pa, waiting)
            waiting, size = [], 0
    if waiting:
        yield joined(pa, waiting)


def _write_run(pa: Any, run: Any, path: Path, shards: int, first: int) -> None:
    shard = _shards(pa, run, shards, first)
    order = np.argsort(shard, kind="stable")
    numbers, start = np.unique(shard[order], return_index=True)
    edge = np.append(start, len(order))
    with pa.OSFile(str(path.with_suffix(".arrow")), "wb") as file, pa.ipc.new_file(file, run.schema) as writer:
        for lo, hi in itertools.pairwise(edge.tolist()):
            writer.write_batch(run.take(pa.array(order[lo:hi])))
    np.save(path.with_suffix(".npy"), numbers)


def _shards(pa: Any, run: Any, shards: int, first: int) -> IntArray:
    """Shard of each row: by its group; a row without a group goes where its number says."""
    coded = groups_of(pa, run).dictionary_encode()
    of_code = np.array([group_digest(name) % shards for name in coded.dictionary.to_pylist()] or [0], dtype=np.int64)
    code = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return np.where(code < 0, (first + np.arange(len(run))) % shards, of_code[np.maximum(code, 0)])
