"""The same crediting of one large file by ours, Polars and DuckDB; each in a process of its own, on one thread.

``python -m apportion.bench.speed.engines ENGINE METHOD FILE OUT`` writes the credit and prints the peak of its memory
in bytes. All read rollouts as they are logged; ``polars_flat`` and ``duckdb_flat`` get the layout that suits them best,
a table with one row per step, which holds only the columns that they need.
"""

from __future__ import annotations

import contextlib
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from apportion.data.columnar import arrow
from apportion.numerics import FloatArray

GAMMA = 0.95
METHODS = ("grpo", "gigpo")


def flatten(path: Path, out: Path) -> None:
    """The table of steps of a log that `steplogs` made: n, group, id, outcome, turn, reward, state."""
    pa, pq = arrow("the benchmark", "parquet")
    file = pq.ParquetFile(path)
    writer, first = None, 0
    for k in range(file.num_row_groups):
        rows = file.read_row_group(k)
        steps = rows.column("steps").combine_chunks()
        flat = steps.flatten()
        size = steps.value_lengths().to_numpy()
        at = pa.array(np.repeat(np.arange(len(size)), size))
        table = pa.table(
            {
                "n": pa.array(np.arange(first, first + len(flat))),
                **{name: rows.column(name).take(at) for name in ("group", "id", "outcome")},
                **{name: flat.field(name) for name in ("turn", "reward", "state")},
            }
        )
        writer = writer or pq.ParquetWriter(out, table.schema, compression="zstd")
        writer.write_table(table)
        first += len(flat)
    assert writer is not None
    writer.close()


def ours(method: str, path: str, out: str) -> None:
    """File by file, as `apportion assign FOLDER` does it; ``out`` is a folder."""
    from apportion.adapters.volume import assign_files

    assign_files([path], out, method, unit="step", params={"gamma": GAMMA} if method == "gigpo" else {})


def polars(method: str, path: str, out: str) -> None:
    """Window expressions over a lazy scan, collected by the streaming engine."""
    import polars as pl

    rows = pl.scan_parquet(path).select("group", "id", "outcome", "steps").explode("steps")
    fields = (pl.col("steps").struct.field(name) for name in ("turn", "reward", "state"))
    _polars(rows.select("group", "id", "outcome", *fields).with_row_index("n"), method, out)


def polars_flat(method: str, path: str, out: str) -> None:
    """The same, of a table of steps."""
    import polars as pl

    _polars(pl.scan_parquet(path), method, out)


def _polars(steps: Any, method: str, out: str) -> None:
    import polars as pl

    rollouts = steps.group_by("group", "id").agg(pl.col("outcome").first())
    mean = rollouts.group_by("group").agg(mean=pl.col("outcome").mean(), std=pl.col("outcome").std())
    joined = steps.join(mean, on="group")
    apart = pl.col("outcome") - pl.col("mean")
    if method == "grpo":
        credit = pl.when(pl.col("std") > 1e-9).then(apart / pl.col("std")).otherwise(0.0)
    else:
        power = pl.lit(GAMMA).pow(pl.col("turn"))
        to_go = (pl.col("reward") * power).cum_sum(reverse=True).over("id") / power
        joined = joined.with_columns(to_go=to_go)
        credit = apart + pl.col("to_go") - pl.col("to_go").mean().over("group", "state")
    joined.select("n", advantage=credit).sink_parquet(out)


def duckdb(method: str, path: str, out: str) -> None:
    """Window functions in SQL, over the unnested lists of steps."""
    source = f"""(select "group", id, outcome, row * 4096 + step.turn n, step.turn, step.reward, step.state from (
        select "group", id, outcome, file_row_number row, unnest(steps) step
        from read_parquet('{path}', file_row_number = true)))"""
    _duckdb(source, method, out)


def duckdb_flat(method: str, path: str, out: str) -> None:
    """The same, of a table of steps."""
    _duckdb(f"'{path}'", method, out)


def _duckdb(source: str, method: str, out: str) -> None:
    import duckdb as db

    connection = db.connect(config={"threads": 1, "temp_directory": f"{out}.tmp"})
    groups = f"""g as (select "group", avg(outcome) mean, stddev_samp(outcome) std
                       from (select "group", id, any_value(outcome) outcome from {source} group by all) group by all)"""
    if method == "grpo":
        query = f"""with {groups} select n, case when std > 1e-9 then (outcome - mean) / std else 0 end advantage
                    from {source} join g using ("group")"""
    else:
        query = f"""with {groups}, t as (
            select n, "group", state, outcome, sum(reward * power({GAMMA}, turn)) over (
                partition by id order by turn desc rows unbounded preceding) / power({GAMMA}, turn) to_go from {source})
            select n, outcome - mean + to_go - avg(to_go) over (partition by "group", state) advantage
            from t join g using ("group")"""
    connection.execute(f"copy ({query}) to '{out}' (format parquet, compression zstd)")


def credit_in(out: Path) -> FloatArray:
    """The credit of every step, in the order of the rollouts."""
    _, pq = arrow("the benchmark", "parquet")
    if out.is_dir():
        lists = [pq.read_table(path, columns=["advantage"]).column(0) for path in sorted(out.glob("*.parquet"))]
        found: Any = [part.combine_chunks().flatten().to_numpy() for part in lists]
        return np.concatenate(found)
    table = pq.read_table(out)
    advantage: FloatArray = table.column("advantage").to_numpy()[np.argsort(table.column("n").to_numpy())]
    return advantage


ENGINES: dict[str, Callable[[str, str, str], None]] = {
    "ours": ours,
    "polars": polars,
    "duckdb": duckdb,
    "polars_flat": polars_flat,
    "duckdb_flat": duckdb_flat,
}


def peak() -> int:
    """Most memory that this process has held, in bytes."""
    with contextlib.suppress(OSError):  # the count of the operating system begins with what the parent held
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main(arguments: list[str]) -> None:
    """Run one engine and print the peak of this process's memory."""
    engine, method, path, out = arguments
    ENGINES[engine](method, path, out)
    print(peak())


if __name__ == "__main__":
    main(sys.argv[1:])
