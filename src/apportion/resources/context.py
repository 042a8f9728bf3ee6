"""The context of a place: what the policy had before it, as ids or as text."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np

from apportion.asks import Place
from apportion.data import Step, Trajectory
from apportion.data.words import words


def path(trajectory: Trajectory, step: int) -> list[int]:
    """Steps from the root to ``step``, following `Step.parent`."""
    out = [step]
    while True:
        parent = trajectory.steps[out[-1]].parent
        before = out[-1] - 1 if parent is None else parent
        if before < 0:
            return out[::-1]
        out.append(before)


def shown(trajectory: Trajectory, step: int) -> list[int]:
    """Steps whose tokens are in the prompt of ``step``, itself last: those since the context was last rewritten."""
    way = path(trajectory, step)
    fresh = [k for k, s in enumerate(way) if trajectory.steps[s].fresh]
    return way[fresh[-1] :] if fresh else way


def sampled(step: Step) -> int:
    """Sampled tokens of a step: ids, or words where it has only text."""
    return words_said(step) if step.ids is None else len(step.ids)


def words_said(step: Step) -> int:
    """Words of the text of an action, whether or not it has ids."""
    return len(_ends(step.action or "")) - 1


def tokens_of(text: str) -> int:
    """Tokens of a text that nobody has tokenised: its words."""
    return len(words(text))


def context_ids(trajectory: Trajectory, place: Place, without: Sequence[str] = ()) -> list[int]:
    """Ids that the policy had before this place; without what some agents did in earlier steps."""
    out: list[int] = []
    *before, last = shown(trajectory, place.step)
    for s in before:
        out += plain(trajectory.steps[s].prompt_ids)
        out += [] if trajectory.steps[s].agent in without else plain(trajectory.steps[s].ids)
    step = trajectory.steps[last]
    return out + plain(step.prompt_ids) + plain(step.ids)[: place.token]


def context_text(trajectory: Trajectory, place: Place, without: Sequence[str] = ()) -> str:
    """Text that stood before this place: observations and actions in turn, cut at words inside an action; without what
    some agents did in earlier steps."""
    *before, last = shown(trajectory, place.step)
    out: list[str | None] = []
    for s in before:
        out += [trajectory.steps[s].observation]
        out += [None if trajectory.steps[s].agent in without else trajectory.steps[s].action]
    step = trajectory.steps[last]
    out += [step.observation, action_text(step, 0, place.token)]
    return "".join(text or "" for text in out)


def action_text(step: Step, first: int = 0, last: int | None = None) -> str:
    """Text of some words of an action that has only text; with ids, only a tokenizer can tell."""
    text = step.action or ""
    if first == 0 and last is None:
        return text
    ends = _ends(text)
    begin, end, _ = slice(first, last).indices(len(ends) - 1)
    return text[ends[begin] : ends[end]] if begin < end else ""


def whole(trajectory: Trajectory) -> Iterator[str]:
    """Every text of a rollout in time order."""
    for step in trajectory.steps:
        yield step.observation or ""
        yield step.action or ""
    yield trajectory.final_observation or ""


def plain(ids: Sequence[int] | np.ndarray | None) -> list[int]:
    """Ids as integers of Python's; none where there are none."""
    return [] if ids is None else list(np.asarray(ids, dtype=np.int64).tolist())


@lru_cache(maxsize=1024)
def _ends(text: str) -> array[int]:
    """Where each of its words ends, behind the beginning; a plan with an ask at every token wants that once a token."""
    return array("i", accumulate(map(len, words(text)), initial=0))
