"""The context of a place: what the policy had before it, as ids or as text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import accumulate

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


def has_ids(trajectory: Trajectory) -> bool:
    """The rollout carries token ids, so nothing has to be tokenised again."""
    return bool(trajectory.steps) and all(s.ids is not None and s.prompt_ids is not None for s in trajectory.steps)


def sampled(step: Step) -> int:
    """Sampled tokens of a step: ids, or words where it has only text."""
    return len(words(step.action or "")) if step.ids is None else len(step.ids)


def tokens_of(text: str) -> int:
    """Tokens of a text that nobody has tokenised: its words."""
    return len(words(text))


def context_ids(trajectory: Trajectory, place: Place, without: Sequence[str] = ()) -> list[int]:
    """Ids that the policy had before this place; without what some agents did in earlier steps."""
    out: list[int] = []
    *before, last = shown(trajectory, place.step)
    for s in before:
        out += _ints(trajectory.steps[s].prompt_ids)
        out += [] if trajectory.steps[s].agent in without else _ints(trajectory.steps[s].ids)
    step = trajectory.steps[last]
    return out + _ints(step.prompt_ids) + _ints(step.ids)[: place.token]


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
    return "".join(words(step.action or "")[first:last])


def whole(trajectory: Trajectory) -> Iterator[str]:
    """Every text of a rollout in time order."""
    for step in trajectory.steps:
        yield step.observation or ""
        yield step.action or ""
    yield trajectory.final_observation or ""


def digest_upto(trajectory: Trajectory, place: Place) -> bytes:
    """Digest of everything the policy saw and did up to a place, and of the task: equal digest, equal future."""
    digest = _task(trajectory)
    for s in path(trajectory, place.step)[:-1]:
        _step(digest, trajectory.steps[s], None)
    _step(digest, trajectory.steps[place.step], place.token)
    return digest.digest()


def digest_all(trajectory: Trajectory) -> bytes:
    """Digest of a whole rollout as another model may be shown it."""
    digest = _task(trajectory)
    for step in trajectory.steps:
        _step(digest, step, None)
    _add(digest, trajectory.final_observation or "")
    return digest.digest()


def _task(trajectory: Trajectory) -> hashlib.blake2b:
    digest = hashlib.blake2b(digest_size=20)
    meta = trajectory.meta
    for text in (trajectory.group, trajectory.reference, repr(meta.get("env")), repr(meta.get("seed"))):
        _add(digest, "\0" if text is None else text)
    _add(digest, repr(meta.get("env_options")))
    return digest


def _step(digest: hashlib.blake2b, step: Step, token: int | None) -> None:
    """A step, or its context and the first ``token`` sampled tokens."""
    digest.update(b"\1" if step.fresh else b"\0")
    if step.ids is None:
        for text in (step.observation or "", action_text(step, 0, token)):
            _add(digest, text)
    else:
        for data in _written(step, token):
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
        if step.prompt_ids is None:
            _add(digest, step.observation or "")


def _add(digest: hashlib.blake2b, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    digest.update(len(data).to_bytes(8, "little"))
    digest.update(data)


KEPT = 256
"""Steps whose ids are kept as text: a plan that asks at every token wants each step's once for every token."""
_kept: dict[int, tuple[Step, bytes, bytes, list[int]]] = {}


def _written(step: Step, token: int | None) -> tuple[bytes, memoryview]:
    """Ids of the prompt, and the first ``token`` sampled ones, as decimals between commas."""
    found = _kept.get(id(step))
    if found is None or found[0] is not step:  # a number of Python's is another object's when this one is gone
        ids = [str(i).encode() for i in _ints(step.ids)]
        ends = [0, *accumulate((len(i) + 1 for i in ids), initial=-1)]
        found = (step, ",".join(map(str, _ints(step.prompt_ids))).encode(), b",".join(ids), [0, *ends[2:]])
        if len(_kept) >= KEPT:
            _kept.clear()
        _kept[id(step)] = found
    _, prompt, sampled_ids, ends = found
    return prompt, memoryview(sampled_ids)[: None if token is None else ends[min(token, len(ends) - 1)]]


def _ints(ids: object) -> list[int]:
    return [] if ids is None else list(map(int, ids))  # type: ignore[call-overload]
