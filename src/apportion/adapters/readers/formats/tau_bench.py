"""Results of tau-bench: a customer, an agent with tools, a database that is right or wrong at the end.

    [{"task_id": 21, "trial": 0, "reward": 1.0, "info": {…}, "traj": [chat messages]}, …]

Group = ``task_id``, name = ``task_id/trial``. The expected actions (``info.task``) become the reference, which no
prompt may see. A run that broke (``info.error``, no messages) counts as failed and unscored: its 0 is a placeholder.
"""

from __future__ import annotations

import json
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Step, Trajectory
from apportion.errors import FormatError

TAKEN = ("task_id", "reward", "traj")


def sniff(head: Head) -> tuple[float, str]:
    """Records with traj, and task_id or trial."""
    for record in head.records:
        if isinstance(record, dict) and isinstance(record.get("traj"), list):
            if "task_id" in record and "trial" in record:
                return 0.95, "records with 'task_id', 'trial' and 'traj'"
            return 0.7, "records with 'traj'"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One trial of one task."""
    if not isinstance(record, dict) or "traj" not in record:
        raise FormatError(f"{at}: no 'traj', so this is not a trial of tau-bench; remove it")
    info = record.get("info")
    info = info if isinstance(info, dict) else {}
    name = None
    if record.get("task_id") is not None:
        name = fields.label(record["task_id"], f"{at}: task_id")
        if record.get("trial") is not None:
            name = f"{name}/{fields.label(record['trial'], f'{at}: trial')}"
        name = context.unique(name)
    meta = fields.rest(record, TAKEN, at, context)
    task = info.get("task")
    if isinstance(task, dict) and isinstance(meta.get("info"), dict):
        meta["info"].pop("task")
        task = fields.kept(task, f"{at}: info.task", context)
    if record["traj"] == [] and info.get("error") is not None:
        context.report.note("runs that broke (info.error): failed and unscored, their 0 is a placeholder")
        steps: tuple[Step, ...] = (Step(action="", failed=True),)
        final, first_user, outcome = None, None, None
    else:
        steps, final, first_user = conversation(record["traj"], at, context)
        outcome = fields.outcome(record, at, context)
    return Trajectory(
        steps,
        group=fields.group(record, at, context, first_user),
        id=name,
        outcome=outcome,
        final_observation=final,
        reference=json.dumps(task, ensure_ascii=False) if isinstance(task, dict) else None,
        meta=meta,
    )


register(Format("tau-bench", "tau-bench results: task_id, trial, reward, info, traj", sniff, of_records(convert)))
