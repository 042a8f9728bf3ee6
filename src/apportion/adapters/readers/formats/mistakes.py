"""Chains of thought in which people marked the first mistake.

    {"input": "…", "steps": ["…", …], "target": "(A)", "answer": "(B)", "mistake_index": 3}        BIG-Bench-Mistake
    {"id": "…", "problem": "…", "steps": ["…", …], "final_answer_correct": false, "label": 3}            ProcessBench
    {"question": {"problem": "…", "ground_truth_answer": "…"}, "label": {"steps": [{"completions": [{"text", "rating"}],
     "chosen_completion": 0, "human_completion": null}], "finish_reason": "solution"}}                   PRM800K

One sentence of the chain is one step; the state of a step is the question and the sentences before it. The label is
``meta["mistake_step"]``: the number of the first wrong step, from 0 on, or null where people found none
(``mistake_index`` null, ``label`` -1). The key is absent where nobody labelled. PRM800K's ratings (1, 0, -1) are the
parts ``rating`` of the step rewards, and the first -1 is the mistake; alternatives that were not chosen are left
out, counted.

Outcome: ``final_answer_correct``, or whether ``answer`` equals ``target`` up to case and white space, 1 or 0; a
right answer behind a mistake, and a wrong one without any, both occur. Each question was answered once: the group is
its own.
"""

from __future__ import annotations

from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import state_after
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Step, Trajectory
from apportion.errors import FormatError

TAKEN = ("input", "problem", "question", "steps", "target", "mistake_index", "label", "final_answer_correct", "id")


def sniff(head: Head) -> tuple[float, str]:
    """Records with steps that are texts and a mark."""
    for record in head.records:
        if not isinstance(record, dict):
            continue
        steps = record.get("steps")
        if isinstance(steps, list) and all(isinstance(step, str) for step in steps):
            if "mistake_index" in record:
                return 0.95, "records with 'steps' and 'mistake_index'"
            if "label" in record and "problem" in record:
                return 0.9, "records with 'problem', 'steps' and 'label'"
        label = record.get("label")
        if (
            isinstance(label, dict)
            and isinstance(label.get("steps"), list)
            and isinstance(record.get("question"), dict)
        ):
            return 0.9, "records with 'question' and 'label' of rated steps"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> Trajectory:
    """One chain."""
    if not isinstance(record, dict):
        raise FormatError(f"{at} is {fields.kind(record)}; give an object with steps")
    if isinstance(record.get("label"), dict):
        return _rated(record, at, context)
    texts = record.get("steps")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise FormatError(f"{at}: no 'steps' that are texts, so this is no chain; remove it")
    meta = fields.rest(record, TAKEN, at, context)
    name = "mistake_index" if "mistake_index" in record else "label"
    if name in record:
        meta["mistake_step"] = _mark(record[name], len(texts), f"{at}: {name}")
    else:
        context.report.note("chains that nobody labelled")
    question = next((record[n] for n in ("input", "problem", "question") if isinstance(record.get(n), str)), None)
    target = record.get("target")
    return Trajectory(
        _steps(texts, question, context),
        group=fields.group(record, at, context, question),
        id=fields.identity(record, at, context),
        outcome=_outcome(record, at, context),
        reference=target if isinstance(target, str) and target else None,
        meta=meta,
    )


def _steps(texts: list[str], question: str | None, context: Context) -> list[Step]:
    if not texts:
        context.report.note("chains without a step: one empty action")
    steps: list[Step] = []
    for text in texts or [""]:
        steps.append(
            Step(
                observation=None if steps else question,
                action=text,
                state=state_after(steps[-1]) if steps else question or "",
                turn=0,
            )
        )
    return steps


def _mark(value: Any, size: int, at: str) -> int | None:
    """The marked step; null and -1 say that there is no mistake."""
    if value is None or (type(value) is int and value == -1):
        return None
    if type(value) is int and 0 <= value < size:
        return value
    shown = value if isinstance(value, int) else fields.kind(value)
    raise FormatError(f"{at} is {shown!s:.40}; give a step from 0 to {size - 1}, or null for no mistake")


def _outcome(record: dict[str, Any], at: str, context: Context) -> float | None:
    if context.outcome is not None:
        return fields.outcome(record, at, context)
    if record.get("final_answer_correct") is not None:
        return fields.number(record["final_answer_correct"], f"{at}: final_answer_correct")
    if isinstance(record.get("target"), str) and isinstance(record.get("answer"), str):
        context.report.note("outcome: whether answer equals target, up to case and white space")
        answer, target = (" ".join(record[name].split()).lower() for name in ("answer", "target"))
        return float(answer == target)
    return fields.outcome(record, at, context)


def _rated(record: dict[str, Any], at: str, context: Context) -> Trajectory:
    """A chain of PRM800K: at each step several continuations were rated, and one was taken."""
    levels, asked = record["label"].get("steps"), record.get("question")
    if not isinstance(levels, list) or not isinstance(asked, dict):
        raise FormatError(f"{at}: no question with label.steps, so this is no chain of PRM800K; remove it")
    texts: list[str] = []
    ratings: list[float | None] = []
    for k, level in enumerate(levels):
        text, rating, others = _taken(level, f"{at}, step {k}")
        context.report.note("continuations that were not chosen: left out", others)
        texts.append(text)
        ratings.append(rating)
    problem = asked.get("problem")
    steps = _steps(texts, problem if isinstance(problem, str) else None, context)
    steps = [
        Step(s.observation, s.action, state=s.state, turn=0, rewards={} if rating is None else {"rating": rating})
        for s, rating in zip(steps, ratings or [None], strict=True)
    ]
    finish = record["label"].get("finish_reason")
    outcome = {"solution": 1.0, "found_error": 0.0}.get(finish) if isinstance(finish, str) else None
    if context.outcome is not None:
        outcome = fields.outcome({**record, **asked}, at, context)
    else:
        context.report.note("reward missing: not scored, which is not 0", outcome is None)
    answer = asked.get("ground_truth_answer")
    meta = fields.rest(record, ("question", "label"), at, context)
    meta["mistake_step"] = next((k for k, rating in enumerate(ratings) if rating == -1), None)
    return Trajectory(
        steps,
        group=fields.group({**record, **asked}, at, context, problem if isinstance(problem, str) else None),
        outcome=outcome,
        reference=answer if isinstance(answer, str) and answer else None,
        meta={**meta, "finish_reason": fields.kept(finish, at, context)},
    )


def _taken(level: Any, at: str) -> tuple[str, float | None, int]:
    """Text and rating of the continuation that the chain went on with, and how many others there were."""
    listed = level.get("completions") if isinstance(level, dict) else None
    listed = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    human = level.get("human_completion") if isinstance(level, dict) else None
    chosen = level.get("chosen_completion") if isinstance(level, dict) else None
    if isinstance(human, dict):
        taken, others = human, len(listed)
    elif listed:
        taken, others = listed[chosen if type(chosen) is int and 0 <= chosen < len(listed) else 0], len(listed) - 1
    else:
        raise FormatError(f"{at}: no completions; give at least one")
    if not isinstance(taken.get("text"), str):
        raise FormatError(f"{at}: text is {fields.kind(taken.get('text'))}; give a text")
    rating = taken.get("rating")
    return taken["text"], float(rating) if type(rating) is int and abs(rating) < 100 else None, others


register(
    Format(
        "mistakes",
        "chains with a marked mistake: BIG-Bench-Mistake, ProcessBench, PRM800K",
        sniff,
        of_records(convert),
    )
)
