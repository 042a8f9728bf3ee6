"""Room 1, *read*: rollouts as a user thinks of them, as flat checked arrays, and as files."""

from apportion.data.batch import Batch
from apportion.data.folding import Row, fold, unfold
from apportion.data.jsonl import SCHEMA, read_jsonl, stream_jsonl, write_jsonl
from apportion.data.parquet import read_parquet, stream_parquet, write_parquet
from apportion.data.read import Skipped, read, stream, write
from apportion.data.trajectory import Step, Trajectory
from apportion.data.words import words

__all__ = [
    "SCHEMA",
    "Batch",
    "Row",
    "Skipped",
    "Step",
    "Trajectory",
    "fold",
    "read",
    "read_jsonl",
    "read_parquet",
    "stream",
    "stream_jsonl",
    "stream_parquet",
    "unfold",
    "words",
    "write",
    "write_jsonl",
    "write_parquet",
]
