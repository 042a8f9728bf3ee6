"""Texts in which an agent's actions and an environment's answers alternate, as steps.

> go to desk 1                            prompt sign: an action after ``>``, the rest up to the next is the answer
On the desk 1, you see a mug 2.           (ALFWorld, TextWorld, ScienceWorld, TextCraft)

Thought 1: I need to search …             labels: Thought and Action are sampled, Observation is the answer
Action 1: Search[Colorado orogeny]        (ReAct, Reflexion; ``Act 1:`` and ``Obs 1:`` too)
Observation 1: The Colorado orogeny …
"""

from __future__ import annotations

import re

from apportion.adapters.readers.chat import state_after
from apportion.data import Step

PROMPT = re.compile(r"^>(?: |$)", re.M)
LABEL = re.compile(r"^[ \t]*(Thought|Think|Action|Act|Observation|Obs)(?:[ \t]*\d+)?[ \t]*:[ \t]?", re.M)
_SEEN = ("Observation", "Obs")
_NOTED = ("OK.", "OK")


def is_prompted(text: str) -> bool:
    """There are lines with a prompt sign and an action."""
    return re.search(r"^> ?\S", text, re.M) is not None


def is_labelled(text: str, *, whole: bool = False) -> bool:
    """There are actions and thoughts or observations by name; ``whole``: actions and observations."""
    found = {match[1] for match in LABEL.finditer(text)}
    beside = set(_SEEN) if whole else {*_SEEN, "Thought", "Think"}
    return bool(found & {"Action", "Act"}) and bool(found & beside)


def steps_of(text: str, *, first: str | None = None, begins: str = "observation") -> tuple[list[Step], str | None]:
    """Steps of a text, and what was observed behind the last.

    Args:
        text: the transcript.
        first: what was observed before it; None = nothing, or the transcript tells.
        begins: what stands before the first prompt sign: "observation", or "action" where the text goes on behind one.
    """
    if is_labelled(text) and not is_prompted(text):
        return _folded(_labelled(text), first)
    return _folded(_prompted(text, begins), first)


def _prompted(text: str, begins: str) -> list[tuple[str, bool]]:
    """Pieces of the text, each with whether it was sampled."""
    pieces = PROMPT.split(text)
    out: list[tuple[str, bool]] = []
    for k, piece in enumerate(pieces):
        if k == 0 and begins == "observation":
            out.append((piece.strip("\n"), False))
            continue
        action, _, answer = piece.strip("\n").lstrip(" ").partition("\n")
        if action.strip():
            out += [(action, True), (answer.strip("\n"), False)]
    return out


def _labelled(text: str) -> list[tuple[str, bool]]:
    out: list[tuple[str, bool]] = []
    marks = list(LABEL.finditer(text))
    if text[: marks[0].start()].strip():
        out.append((text[: marks[0].start()].strip("\n"), False))
    thinking = False  # the last piece is a thought whose action has not come yet
    for mark, behind in zip(marks, [*(m.start() for m in marks[1:]), len(text)], strict=True):
        if mark[1] in _SEEN:
            out.append((text[mark.end() : behind].strip(), False))
            thinking = False
            continue
        whole = text[mark.start() : behind].strip()
        if thinking:
            out[-1] = (f"{out[-1][0]}\n{whole}", True)
        else:
            out.append((whole, True))
        thinking = mark[1] in ("Thought", "Think")
    return out


def _folded(pieces: list[tuple[str, bool]], first: str | None) -> tuple[list[Step], str | None]:
    steps: list[Step] = []
    waiting = [first] if first else []
    for text, own in pieces:
        if not own:
            waiting += [text] if text else []
            continue
        observation = "\n".join(waiting) or None
        if steps and observation in _NOTED and (steps[-1].action or "").lstrip().lower().startswith("think"):
            state = steps[-1].state  # a thought leaves the world as it was
        else:
            state = observation or (state_after(steps[-1], "> ") if steps else "")
        steps.append(Step(observation=observation, action=text, state=state, turn=len(steps)))
        waiting = []
    return steps, "\n".join(waiting) or None
