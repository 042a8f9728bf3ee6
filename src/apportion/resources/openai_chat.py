"""A text-only rollout as a chat: messages of roles, for servers that take nothing else."""

from __future__ import annotations

import re

from apportion.data import Step, Trajectory
from apportion.resources.context import shown
from apportion.resources.sampling import Messages


def messages_of(rollout: Trajectory, upto: int) -> Messages:
    """The chat before the action of a step.

    A step whose ``extra`` holds ``messages`` (role and content each) is told in them. Else what was observed is one
    message of the user, or several where it bears the marks that the readers of chat logs write (``[user] …``).
    """
    out: list[tuple[str, str]] = []
    for s in shown(rollout, upto):
        step = rollout.steps[s]
        out += _heard(step, first=not out)
        if s != upto and step.action:
            out.append(("assistant", step.action))
    return tuple(out)


_MARK = re.compile(r"^\[(system|developer|user|tool|function)(?: [^\]\n]*)?\] ?", re.MULTILINE)


def _heard(step: Step, first: bool) -> list[tuple[str, str]]:
    given = step.extra.get("messages")
    if isinstance(given, list) and all(
        isinstance(m, dict) and isinstance(m.get("role"), str) and isinstance(m.get("content"), str) for m in given
    ):
        return [(m["role"], m["content"]) for m in given]
    text = step.observation or ""
    marks = list(_MARK.finditer(text))
    if not text:
        return []
    if not marks or marks[0].start() > 0:
        return [("user", text)]
    out: list[tuple[str, str]] = []
    for mark, after in zip(marks, [*marks[1:], None], strict=True):
        # only the first message of a rollout may be the system's: later ones quote what others wrote
        role = "system" if first and not out and mark[1] in ("system", "developer") else "user"
        out.append((role, text[mark.end() : after.start() if after else None].rstrip("\n")))
    return out


def plain_before(rollout: Trajectory, upto: int) -> str:
    """Text before the action of a step, as `context_text` writes it."""
    parts = [(rollout.steps[s].observation or "", rollout.steps[s].action or "") for s in shown(rollout, upto)]
    return "".join(observed + (action if k + 1 < len(parts) else "") for k, (observed, action) in enumerate(parts))
