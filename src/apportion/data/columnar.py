"""Trajectories as columns of Arrow, one row each, their steps a list of structs: what Parquet and Arrow files share.

    id  group  outcome  outcomes_json  final_observation  final_value  reference  meta_json  exact_json
    steps: list<struct<observation, action, prompt_ids: list<int32>, ids, …, logp: list<double>, …,
                       columns: list<struct<name, values: list<double>>>, …, extra_json>>

Null is None, an empty list is an empty list, floats are float64; those of tokens are float32 in a file for which that
holds each of them exactly, as it does what a model computed in 32 bits. ``meta_json`` and ``extra_json`` hold the free
fields, ``outcomes_json`` and ``rewards_json`` numbers by name.
``exact_json`` is null but for a trajectory with text that UTF-8 cannot hold (half a surrogate pair): it then has
the whole record, and the text columns show "?" for those characters.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection
from types import ModuleType
from typing import Any

from apportion.data.record import SCHEMA
from apportion.errors import missing_extra

KEY = b"apportion.schema"
TRAJECTORY_COLUMNS = {
    "id": "string",
    "group": "string",
    "outcome": "double",
    "outcomes": "json",
    "final_observation": "string",
    "final_value": "double",
    "reference": "string",
    "meta": "json",
    "exact": "json",
}
STEP_COLUMNS = {
    "observation": "string",
    "action": "string",
    "prompt_ids": "ids",
    "ids": "ids",
    "fresh": "bool",
    "logp": "floats",
    "ref_logp": "floats",
    "entropy": "floats",
    "value": "double",
    "token_values": "floats",
    "columns": "named",
    "reward": "double",
    "rewards": "json",
    "state": "string",
    "terminated": "bool",
    "truncated": "bool",
    "failed": "bool",
    "turn": "int64",
    "agent": "string",
    "actions": "strings",
    "parent": "int64",
    "extra": "json",
}
TOKENS = ("ids", "floats")
OLD_COLUMNS = "columns_json"
"""Where the first files hold ``columns``, as JSON text; they are still read."""


def schema_of(pa: ModuleType, narrow: Collection[str] = ()) -> Any:
    """The Arrow schema, our name and version in its metadata; the floats of ``narrow`` columns have 32 bits."""

    def named(floats: Any) -> Any:
        return pa.list_(pa.struct([pa.field("name", pa.string()), pa.field("values", floats)]))

    types = {
        "string": pa.string(),
        "double": pa.float64(),
        "int64": pa.int64(),
        "bool": pa.bool_(),
        "ids": pa.list_(pa.int32()),
        "floats": pa.list_(pa.float64()),
        "named": named(pa.list_(pa.float64())),
        "strings": pa.list_(pa.string()),
        "json": pa.string(),
    }
    halved = {"floats": pa.list_(pa.float32()), "named": named(pa.list_(pa.float32()))}
    step = pa.struct(
        [
            pa.field(column_of(name, kind), (halved if name in narrow else types)[kind])
            for name, kind in STEP_COLUMNS.items()
        ]
    )
    fields = [pa.field(column_of(name, kind), types[kind]) for name, kind in TRAJECTORY_COLUMNS.items()]
    return pa.schema([*fields, pa.field("steps", pa.list_(step))], metadata={KEY: SCHEMA.encode()})


def column_of(name: str, kind: str) -> str:
    """Name of the column that holds a field."""
    return f"{name}_json" if kind == "json" else name


def arrow(what: str, part: str) -> tuple[ModuleType, ModuleType]:
    """pyarrow and one of its modules.

    Raises:
        MissingExtra: it is not installed; ``what`` is what it was wanted for.
    """
    try:
        return importlib.import_module("pyarrow"), importlib.import_module(f"pyarrow.{part}")
    except ImportError:
        raise missing_extra(what, "pyarrow", "parquet") from None


def first_line(error: BaseException) -> str:
    """Of what pyarrow says."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(". ")
