"""Solutions of several models to one question, each judged, as the GSM8K paper published them.

    {"question": "…", "ground_truth": "…", "175b_verification": {"is_correct": true, "solution": "…"}, …}

Every field that is an object with a ``solution`` is one rollout, and the field's name is its agent. One record, one
group: all of them answer the same question, but they come from different models, so the group compares models, not
samples of one policy. One solution is one step; ``by_segment`` cuts it into lines or sentences.
"""

from __future__ import annotations

from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Step, Trajectory
from apportion.errors import FormatError


def sniff(head: Head) -> tuple[float, str]:
    """Records with a question and named solutions."""
    for record in head.records:
        if isinstance(record, dict) and "question" in record and _names(record):
            return 0.85, "records with 'question' and named objects with a 'solution'"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> list[Trajectory]:
    """Every solution of one question."""
    names = _names(record) if isinstance(record, dict) else []
    question = record.get("question") if names else None
    if not names or not isinstance(question, str):
        raise FormatError(f"{at}: no question with named solutions; remove it")
    truth = record.get("ground_truth")
    number = context.names["questions"]
    context.names["questions"] += 1
    context.report.note("group: the solutions of one question, of different models", len(names))
    out = []
    for name in names:
        told = record[name]
        if not isinstance(told["solution"], str):
            raise FormatError(f"{at}: {name[:40]}.solution is {fields.kind(told['solution'])}; give a text")
        step = Step(observation=question, action=told["solution"], state=question, agent=name, terminated=True)
        group = f"question {number}" if context.group_by is None else fields.group(record, at, context, question)
        verdict = {"success": told.get("is_correct", told.get("correct"))}
        out.append(
            Trajectory(
                [step],
                group=group,
                id=context.unique(f"question {number}/{name}"),
                outcome=fields.outcome(verdict, at, context, whole={**record, **told}),
                reference=truth if isinstance(truth, str) and truth else None,
                meta=fields.rest(record, ("question", "ground_truth", *names), at, context),
            )
        )
    return out


def _names(record: dict[str, Any]) -> list[str]:
    """Fields that hold a solution."""
    return [name for name, value in record.items() if isinstance(value, dict) and "solution" in value]


register(Format("solutions", "named solutions of one question with is_correct, as GSM8K's", sniff, of_records(convert)))
