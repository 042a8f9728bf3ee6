"""Room 1, *read*: rollouts as a user thinks of them, as flat checked arrays, and as files."""

from apportion.data.arrow import read_arrow, stream_arrow, write_arrow
from apportion.data.batch import Batch
from apportion.data.folding import FoldReport, Row, fold, prefix_report, unfold
from apportion.data.jsonl import JsonlWriter, read_jsonl, stream_jsonl, write_jsonl
from apportion.data.parquet import read_parquet, stream_parquet, write_parquet
from apportion.data.read import Skipped, read, stream, write
from apportion.data.record import SCHEMA
from apportion.data.trajectory import Step, Trajectory
from apportion.data.truncation import on_truncated
from apportion.data.words import words

__all__ = [
    "SCHEMA",
    "Batch",
    "FoldReport",
    "JsonlWriter",
    "Row",
    "Skipped",
    "Step",
    "Trajectory",
    "fold",
    "on_truncated",
    "prefix_report",
    "read",
    "read_arrow",
    "read_jsonl",
    "read_parquet",
    "stream",
    "stream_arrow",
    "stream_jsonl",
    "stream_parquet",
    "unfold",
    "words",
    "write",
    "write_arrow",
    "write_jsonl",
    "write_parquet",
]
