"""Our own files, JSONL and Parquet: read exactly, by the data room."""

from __future__ import annotations

from typing import Any

from apportion.adapters.readers.registry import Context, Format, Head, Path, Trajectories, register
from apportion.data.read import stream
from apportion.errors import FormatError


def sniff(head: Head) -> tuple[float, str]:
    """A schema line, records with steps, or a Parquet file."""
    if head.start.startswith(b"PAR1"):
        return 0.9, "a Parquet file"
    for record in head.records:
        if isinstance(record, dict) and str(record.get("schema", "")).startswith("apportion.rollouts/"):
            return 1.0, f"a schema line {record['schema']!r}"
    if head.records and _ours(head.records[0]):
        return 0.8, "records with steps and without a schema line"
    return 0.0, ""


def _ours(record: Any) -> bool:
    steps = record.get("steps") if isinstance(record, dict) else None
    if not isinstance(steps, list) or not steps or not isinstance(steps[0], dict):
        return False
    return "ids" in steps[0] or "action" in steps[0]


def read(path: Path, context: Context) -> Trajectories:
    """Trajectories as they were written; broken lines are counted by the data room."""
    if not context.skip_bad:
        yield from stream(path)
        return
    before = context.report.skipped.count
    try:
        yield from stream(path, skip_bad=context.report.skipped)
    finally:
        context.report.records += context.report.skipped.count - before


register(Format("apportion", "rollouts of apportion: JSONL or Parquet", sniff, read, regroups=False))

__all__ = ["FormatError", "read", "sniff"]
