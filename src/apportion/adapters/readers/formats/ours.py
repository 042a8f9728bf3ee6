"""Our own files, JSONL, Parquet and Arrow IPC: read exactly, by the data room; and one JSON list of our records."""

from __future__ import annotations

from typing import Any

from apportion.adapters.readers.records import of_records, start_of
from apportion.adapters.readers.registry import Context, Format, Head, Path, Trajectories, register
from apportion.data import Trajectory
from apportion.data.read import stream
from apportion.data.record import from_record


def sniff(head: Head) -> tuple[float, str]:
    """A schema line, records with steps, or a Parquet file."""
    if head.start.startswith(b"ARROW1"):
        return 0.9, "an Arrow IPC file"
    if head.start.startswith(b"PAR1"):
        ours = "steps" in head.columns and any(name.endswith("_json") for name in head.columns)
        return (1.0, "a Parquet file with our columns") if ours else (0.0, "")
    for record in head.records:
        if isinstance(record, dict) and str(record.get("schema", "")).startswith("apportion.rollouts/"):
            return 1.0, f"a schema line {record['schema']!r}"
        if _ours(record):
            return 0.8, "records with steps and without a schema line"
    return 0.0, ""


def read(path: Path, context: Context) -> Trajectories:
    """Trajectories as they were written; broken lines are counted by the data room."""
    if _is_list(path):
        yield from _listed(path, context)
        return
    if not context.skip_bad:
        yield from stream(path)
        return
    before = context.report.skipped.count
    try:
        yield from stream(path, skip_bad=context.report.skipped)
    finally:
        context.report.records += context.report.skipped.count - before


def _ours(record: Any) -> bool:
    steps = record.get("steps") if isinstance(record, dict) else None
    if not isinstance(steps, list) or not steps or not isinstance(steps[0], dict):
        return False
    return "ids" in steps[0] or "action" in steps[0]


def _is_list(path: Path) -> bool:
    return start_of(path, 64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"[")


def _record(value: Any, at: str, context: Context) -> Trajectory:
    return from_record(value, at)


_listed = of_records(_record)

register(
    Format(
        "apportion", "rollouts of apportion: JSONL, Parquet or Arrow IPC", sniff, read, regroups=False, rescores=False
    )
)
