"""Preference pairs: two answers to one prompt, and which of them was preferred.

    {"chosen": "\\n\\nHuman: …\\n\\nAssistant: …", "rejected": "…"}            Anthropic's HH: two whole dialogues
    {"prompt": "…" or [messages], "chosen": …, "rejected": …}                  texts or messages, as TRL reads them
    {"conversations": [turns], "chosen": {turn}, "rejected": {turn}}           ShareGPT
    {"instruction": "…", "input": "…", "chosen": "…", "rejected": "…"}         Alpaca

A pair is two rollouts of one group, named ``…/chosen`` and ``…/rejected``. What both share at their start is context;
what follows was sampled. ``score_chosen`` and ``score_rejected`` are their outcomes; without them the preference is:
1 for the chosen one, 0 for the rejected one, which says who won and nothing of by how much. ``meta["preferred"]`` is
true or false. The models that wrote the answers may be others than the policy.
"""

from __future__ import annotations

import re
from typing import Any

from apportion.adapters.readers import fields
from apportion.adapters.readers.chat import conversation, is_message
from apportion.adapters.readers.formats import sharegpt
from apportion.adapters.readers.records import of_records
from apportion.adapters.readers.registry import Context, Format, Head, register
from apportion.data import Trajectory
from apportion.errors import FormatError

SIDES = ("chosen", "rejected")
PROMPTS = ("prompt", "conversations", "conversation", "messages", "instruction", "question", "system", "input", "query")
SCORES = {"chosen": ("score_chosen", "chosen_score"), "rejected": ("score_rejected", "rejected_score")}
_SPOKEN = re.compile(r"\n\n(Human|Assistant): ?")


def sniff(head: Head) -> tuple[float, str]:
    """Records with chosen and rejected."""
    for record in head.records:
        if isinstance(record, dict) and all(side in record for side in SIDES):
            return 0.9, "records with 'chosen' and 'rejected'"
    return 0.0, ""


def convert(record: Any, at: str, context: Context) -> list[Trajectory]:
    """The two rollouts of a pair."""
    if not isinstance(record, dict) or any(record.get(side) is None for side in SIDES):
        raise FormatError(f"{at}: no 'chosen' and 'rejected', so this is no preference pair; remove it")
    before = _prompt(record, at, context)
    said = {side: _answer(record[side], f"{at}: {side}", context) for side in SIDES}
    if not before:
        shared = _shared(*(said[side] for side in SIDES))
        before = said["chosen"][:shared]
        said = {side: messages[shared:] for side, messages in said.items()}
    else:
        said = {side: m[len(before) :] if m[: len(before)] == before else m for side, m in said.items()}
    scores = _scores(record, at, context)
    name = fields.identity(record, at, context) or context.unique(f"pair {context.names['pairs']}")
    context.names["pairs"] += 1
    meta = fields.rest(record, (*SIDES, *PROMPTS, *SCORES["chosen"], *SCORES["rejected"], *fields.IDS), at, context)
    out = []
    for side in SIDES:
        chat = conversation(said[side], f"{at}: {side}", context, before=before)
        group = name if context.group_by is None else fields.group(record, at, context, chat.first_user)
        out.append(
            Trajectory(
                chat.steps,
                group=group,
                id=f"{name}/{side}",
                outcome=scores[side],
                final_observation=chat.final_observation,
                meta={**meta, "preferred": side == "chosen"},
            )
        )
    return out


def _prompt(record: dict[str, Any], at: str, context: Context) -> list[dict[str, Any]]:
    """What both answers answer, as messages."""
    out: list[dict[str, Any]] = []
    if isinstance(record.get("system"), str) and record["system"]:
        out.append({"role": "system", "content": record["system"]})
    name, value = fields.first(record, ("prompt", "conversations", "conversation", "messages"))
    if name:
        return [*out, *_messages(value, "user", f"{at}: {name}", context)]
    asked = [record.get(name) for name in ("instruction", "question", "query", "input")]
    texts = [text for text in asked if isinstance(text, str) and text]
    return [*out, {"role": "user", "content": "\n".join(texts)}] if texts else out


def _answer(value: Any, at: str, context: Context) -> list[dict[str, Any]]:
    return _messages(value, "assistant", at, context)


def _messages(value: Any, role: str, at: str, context: Context) -> list[dict[str, Any]]:
    """A text, a dialogue in one text, a turn, a message, or a list of either."""
    if isinstance(value, str):
        return _dialogue(value) or [{"role": role, "content": value}]
    listed = value if isinstance(value, list) else [value]
    out = []
    for k, item in enumerate(listed):
        if is_message(item):
            out.append(item)
        elif isinstance(item, str):
            out.append({"role": role, "content": item})
        else:
            out.append(sharegpt.message(item, f"{at}, turn {k}", context))
    return out


def _dialogue(text: str) -> list[dict[str, Any]]:
    """The turns of a text with Human: and Assistant: in it; empty where it has none."""
    pieces = _SPOKEN.split(text)
    if len(pieces) < 3 or pieces[0].strip():
        return []
    role = {"Human": "user", "Assistant": "assistant"}
    return [{"role": role[who], "content": said} for who, said in zip(pieces[1::2], pieces[2::2], strict=True)]


def _shared(one: list[Any], other: list[Any]) -> int:
    """How many messages both begin with; the last answer of each is never shared."""
    count = 0
    while count < min(len(one), len(other)) - 1 and one[count] == other[count]:
        count += 1
    return count


def _scores(record: dict[str, Any], at: str, context: Context) -> dict[str, float]:
    told = {side: fields.first(record, SCORES[side]) for side in SIDES}
    if all(name for name, _ in told.values()):
        return {side: fields.number(value, f"{at}: {name}") for side, (name, value) in told.items()}
    context.report.note("outcomes are preferences: 1 for the chosen answer, 0 for the rejected one, no reward")
    return {"chosen": 1.0, "rejected": 0.0}


register(
    Format(
        "preferences",
        "preference pairs, chosen and rejected: HH dialogues, TRL, ShareGPT, Alpaca",
        sniff,
        of_records(convert),
        rescores=False,
    )
)
