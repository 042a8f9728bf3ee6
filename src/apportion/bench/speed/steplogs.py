"""Large logs of steps with stored state keys, made in columns: 8 rollouts a group, 5 to 20 steps, 8 sampled tokens."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from apportion.data.columnar import STEP_COLUMNS, arrow, schema_of
from apportion.data.parquet import parquet_writer

SIZE, SHORTEST, LONGEST, TOKENS, STATES = 8, 5, 20, 8, 12
"""Rollouts of a group, steps of a rollout, sampled tokens of a step (its context is as long), states of a group."""
GROUPS = 512
"""Groups made at a time."""


def write_steplog(path: str | os.PathLike[str], groups: int, seed: int = 0) -> int:
    """Write a Parquet file in our schema; returns its number of steps."""
    pa, _ = arrow("writing Parquet", "parquet")
    steps = 0
    with parquet_writer(path) as writer:
        for first in range(0, groups, GROUPS):
            rows = _rows(pa, min(GROUPS, groups - first), first, np.random.default_rng([seed, first]), f"{seed}")
            writer.write_batch(rows)
            steps += len(rows.column("steps").flatten())
    return steps


def _rows(pa: Any, groups: int, first: int, rng: np.random.Generator, label: str) -> Any:
    n = groups * SIZE
    length_N = rng.integers(SHORTEST, LONGEST + 1, size=n)
    s = int(length_N.sum())
    group_N = first + np.repeat(np.arange(groups), SIZE)
    schema = schema_of(pa)
    nested = schema.field("steps").type
    turn_S = np.arange(s) - np.repeat(np.cumsum(length_N) - length_N, length_N)
    end_S = np.zeros(s, dtype=np.bool_)
    end_S[np.cumsum(length_N) - 1] = True
    room = pa.array([f"room {k}: a door, a key, a lamp" for k in range(STATES)])
    given = {
        "prompt_ids": _lists(pa, rng.integers(0, 151_000, size=s * TOKENS), s),
        "ids": _lists(pa, rng.integers(0, 151_000, size=s * TOKENS), s),
        "reward": pa.array(rng.integers(0, 8, size=s) / 8),
        "state": room.take(pa.array(rng.integers(0, STATES, size=s))),
        "turn": pa.array(turn_S),
        "terminated": pa.array(end_S),
        **{name: pa.array(np.zeros(s, dtype=np.bool_)) for name in ("fresh", "truncated", "failed")},
    }
    step = pa.StructArray.from_arrays(
        [
            given.get(name, pa.nulls(s, field.type)).cast(field.type)
            for name, field in zip(STEP_COLUMNS, nested.value_type, strict=True)
        ],
        fields=list(nested.value_type),
    )
    columns = {
        "id": pa.array([f"{label}-{first}-{k}" for k in range(n)]),
        "group": pa.array([f"task {label}-{g}" for g in group_N.tolist()]),
        "outcome": pa.array(rng.integers(0, 2, size=n).astype(np.float64)),
        "steps": pa.ListArray.from_arrays(np.append(0, np.cumsum(length_N)).astype(np.int32), step, type=nested),
    }
    arrays = [columns.get(field.name, pa.nulls(n, field.type)) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _lists(pa: Any, values: Any, size: int) -> Any:
    return pa.ListArray.from_arrays(np.arange(0, len(values) + 1, TOKENS, dtype=np.int32)[: size + 1], pa.array(values))
