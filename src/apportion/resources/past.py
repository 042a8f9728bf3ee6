"""What stood before each place of a rollout: its digest and its size.

A plan with an ask at every step costs as much as the rollout is long, and not that many times over. All of it equals
what comes of going through the rollout from its beginning for every place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple, TypeVar

from apportion.asks import Place
from apportion.data import Step, Trajectory
from apportion.data.words import kind_of, words
from apportion.resources.context import action_text, sampled, tokens_of, words_said
from apportion.resources.digest import add_step, add_text, task_digest, task_of

Known = TypeVar("Known")

KEPT = 32
"""Rollouts whose past is kept: plans go through one after the other, or side by side through those of a group."""


def digest_upto(trajectory: Trajectory, place: Place) -> bytes:
    """Digest of everything the policy saw and did up to a place, and of the task: equal digest, equal future."""
    return _past(trajectory).digest(place)


def digest_all(trajectory: Trajectory) -> bytes:
    """Digest of a whole rollout as another model may be shown it."""
    return _past(trajectory).whole_digest()


def has_ids(trajectory: Trajectory) -> bool:
    """The rollout carries token ids, so nothing has to be tokenised again."""
    return _past(trajectory).has_ids


def context_size(trajectory: Trajectory, place: Place) -> int:
    """Tokens that the policy had before a place: ids, or the words of its text."""
    past = _past(trajectory)
    return past.ids_before(place) if past.has_ids else past.words_before(place)


def size_upto(trajectory: Trajectory, steps: int) -> int:
    """Tokens of the first steps, context and actions."""
    return _past(trajectory).sizes()[steps]


def rest_of(trajectory: Trajectory, step: int, token: int) -> int:
    """Tokens that the policy sampled from a place to the end of the rollout (of all that follow, where it forks)."""
    upto = _past(trajectory).sampled()
    return upto[-1] - upto[step] - token


def _past(trajectory: Trajectory) -> _Past:
    return _kept(trajectory, task_of(trajectory))  # metadata may be changed in place


@lru_cache(maxsize=KEPT)
def _kept(trajectory: Trajectory, task: tuple[str, ...]) -> _Past:
    return _Past(trajectory, task)


class _Tally(NamedTuple):
    """Words of a text, and what kind its first and last characters are of."""

    size: int = 0
    first: str = ""
    last: str = ""

    @classmethod
    def of(cls, text: str | None) -> _Tally:
        return cls(len(words(text)), kind_of(text[0]), kind_of(text[-1])) if text else cls()

    def then(self, other: _Tally) -> _Tally:
        """Of both texts in one: white space at the end of the first, or half a word, goes on in the second."""
        if not self.size or not other.size:
            return self if self.size else other
        one = self.last == "space" or self.last == other.first == "plain"
        return _Tally(self.size + other.size - one, self.first, other.last)


class _Past:
    """One rollout. What holds after a step is made of what holds after its parent, once."""

    def __init__(self, trajectory: Trajectory, task: tuple[str, ...]) -> None:
        self.trajectory, self.steps = trajectory, trajectory.steps
        self.has_ids = bool(self.steps) and all(s.ids is not None and s.prompt_ids is not None for s in self.steps)
        self._digests = {-1: task_digest(task)}
        self._ids = {-1: 0}
        self._words = {-1: _Tally()}
        self._heard: dict[int, _Tally] = {}
        self._whole: bytes | None = None
        self._sampled: list[int] | None = None
        self._sizes: list[int] | None = None

    def digest(self, place: Place) -> bytes:
        """Of the path to a place."""
        digest = self._upto(self._digests, place.step, _digested).copy()
        add_step(digest, self.steps[place.step], place.token)
        return digest.digest()

    def whole_digest(self) -> bytes:
        """Of all steps in their order, whatever their parents."""
        if self._whole is None:
            digest = self._digests[-1].copy()
            for step in self.steps:
                add_step(digest, step, None)
            add_text(digest, self.trajectory.final_observation or "")
            self._whole = digest.digest()
        return self._whole

    def ids_before(self, place: Place) -> int:
        """Ids of the context and of what was sampled before the token."""
        step = self.steps[place.step]
        before = 0 if step.fresh else self._upto(self._ids, place.step, _ids_after)
        return before + _length(step.prompt_ids) + min(place.token, _length(step.ids))

    def words_before(self, place: Place) -> int:
        """Words of the text, as `words` counts them in all of it at once."""
        step = self.steps[place.step]
        if place.step not in self._heard:
            before = _Tally() if step.fresh else self._upto(self._words, place.step, _words_after)
            self._heard[place.step] = before.then(_Tally.of(step.observation))
        return self._heard[place.step].then(_beginning(step, place.token)).size

    def sampled(self) -> list[int]:
        """Tokens that were sampled before each step in the order of the rollout, and all of them."""
        if self._sampled is None:
            self._sampled = list(accumulate(map(sampled, self.steps), initial=0))
        return self._sampled

    def sizes(self) -> list[int]:
        """Tokens before each step in the order of the rollout, context and actions, and all of them."""
        if self._sizes is None:
            given = (tokens_of(s.observation or "") if s.prompt_ids is None else len(s.prompt_ids) for s in self.steps)
            self._sizes = [a + b for a, b in zip(accumulate(given, initial=0), self.sampled(), strict=True)]
        return self._sizes

    def _upto(self, known: dict[int, Known], step: int, after: Callable[[Known, Step], Known]) -> Known:
        """What holds before ``step``: after its parent, or at the root."""
        way: list[int] = []
        at = self._parent(step)
        while at not in known:
            way.append(at)
            at = self._parent(at)
        for s in reversed(way):
            known[s] = after(known[at], self.steps[s])
            at = s
        return known[at]

    def _parent(self, step: int) -> int:
        parent = self.steps[step].parent
        return max(step - 1 if parent is None else parent, -1)


def _digested(before: hashlib.blake2b, step: Step) -> hashlib.blake2b:
    digest = before.copy()
    add_step(digest, step, None)
    return digest


def _ids_after(before: int, step: Step) -> int:
    """In the context, which begins anew with a fresh step."""
    return (0 if step.fresh else before) + _length(step.prompt_ids) + _length(step.ids)


def _words_after(before: _Tally, step: Step) -> _Tally:
    return (_Tally() if step.fresh else before).then(_Tally.of(step.observation)).then(_Tally.of(step.action))


def _beginning(step: Step, token: int) -> _Tally:
    """The first words of an action, which are as many words by themselves."""
    text = action_text(step, 0, token)
    return _Tally(min(token, words_said(step)), kind_of(text[0]), kind_of(text[-1])) if text else _Tally()


def _length(ids: object) -> int:
    return 0 if ids is None else len(ids)  # type: ignore[arg-type]
