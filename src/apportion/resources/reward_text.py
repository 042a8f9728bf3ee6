"""What a reward model is shown of a rollout: text with the absent tokens replaced, and where each span stands in it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apportion.asks import Attend, Place, Score, Span
from apportion.data import Step, Trajectory
from apportion.data.words import words
from apportion.resources.context import sampled, shown
from apportion.resources.past import has_ids
from apportion.resources.sampling import Speller

WITHHELD = "[nothing]"
"""Stands for the action of an agent that is left out."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A text, and where spans of sampled tokens stand in it: begin and end in characters."""

    text: str
    places: tuple[tuple[int, int], ...] = ()


def end_of(ask: Score | Attend, rollout: Trajectory) -> Place:
    """Up to where the rollout is shown."""
    if isinstance(ask, Score) and ask.upto is not None:
        return ask.upto
    last = len(rollout.steps) - 1
    return Place(ask.traj, last, sampled(rollout.steps[last]))


def needs_speller(ask: Score | Attend, rollout: Trajectory) -> bool:
    """Whether ids have to be spelled to show it as text."""
    if not has_ids(rollout):
        return False
    end = end_of(ask, rollout)
    cut = {span.step for span in (ask.spans if isinstance(ask, Attend) else ask.absent)}
    for s in shown(rollout, end.step):
        step = rollout.steps[s]
        whole = s not in cut and (s != end.step or end.token in (0, sampled(step)))
        if (step.observation is None and _prompted(step)) or step.action is None or not whole:
            return True
    return False


def shown_text(ask: Score | Attend, rollout: Trajectory, speller: Speller | None, mask: str = "") -> Shown:
    """The rollout as text.

    Args:
        ask: what is absent, or whose place is asked for. speller: of the policy, where `needs_speller`.
        mask: text of the scoring model's mask token.
    """
    end = end_of(ask, rollout)
    wanted = ask.spans if isinstance(ask, Attend) else ()
    found: dict[Span, tuple[int, int]] = {}
    parts: list[str] = []
    size = 0
    for s in shown(rollout, end.step):
        step = rollout.steps[s]
        observed = _observed(step, speller)
        last = end.token if s == end.step else sampled(step)
        pieces = _pieces(step, last, speller)
        offsets = [0, *itertools.accumulate(map(len, pieces))]
        begin = size + len(observed)
        for span in wanted:
            if span.step == s:
                lo, hi = min(span.first, len(pieces)), min(span.last, len(pieces))
                found[span] = (begin + offsets[lo], begin + offsets[hi])
        if isinstance(ask, Score):
            pieces = _without(ask, s, step, pieces, mask)
        parts += [observed, *pieces]
        size = begin + sum(map(len, pieces))
    return Shown("".join(parts), tuple(found.get(span, (0, 0)) for span in wanted))


def token_texts(ids: Sequence[int], spell: Callable[[Sequence[int]], str]) -> list[str]:
    """Text that each id adds; joined they are the text of all. Ids that end inside a character add nothing yet."""
    out: list[str] = []
    clean, known = 0, ""  # ids from `clean` on are spelled again with each further one
    for k in range(len(ids)):
        text = spell(ids[clean : k + 1])
        if text.endswith("�") and k + 1 < len(ids):
            out.append("")
            continue
        out.append(text[len(known) :] if text.startswith(known) else text)
        known = text
        if k + 1 - clean >= 16:  # a few ids of what came before keep the blank between words
            clean = k + 1 - 8
            known = spell(ids[clean : k + 1])
    return out


def _without(ask: Score, s: int, step: Step, pieces: list[str], mask: str) -> list[str]:
    if step.agent is not None and step.agent in ask.agents:
        return [WITHHELD]
    absent = {t for span in ask.absent if span.step == s for t in range(span.first, span.last)}
    if not absent:
        return pieces
    return [_filled(ask.filler, piece, mask) if t in absent else piece for t, piece in enumerate(pieces)]


def _filled(filler: str, piece: str, mask: str) -> str:
    return {"delete": "", "blank": " " * len(piece), "mask_token": mask}[filler]


def _prompted(step: Step) -> bool:
    return step.prompt_ids is not None and len(step.prompt_ids) > 0


def _observed(step: Step, speller: Speller | None) -> str:
    if step.observation is not None or not _prompted(step):
        return step.observation or ""
    assert speller is not None  # whoever checks the request
    assert step.prompt_ids is not None
    return speller.text([int(x) for x in step.prompt_ids])


def _pieces(step: Step, last: int, speller: Speller | None) -> list[str]:
    """Text of each of the first sampled tokens."""
    if step.ids is None:
        return words(step.action or "")[:last]
    if speller is not None:
        return token_texts([int(x) for x in step.ids[:last]], speller.text)
    # whole actions only: their text is the first token's, so that nothing is lost
    return [step.action or "", *[""] * (last - 1)] if last else []
