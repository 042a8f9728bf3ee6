"""What a policy has written since the environment last spoke: its last answer, on the branch where a place is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from apportion.asks import Continue, Place
from apportion.data import Trajectory
from apportion.errors import ConfigError
from apportion.resources.context import action_text, context_ids, path, sampled
from apportion.resources.past import has_ids


def answer_steps(rollout: Trajectory, step: int) -> list[int]:
    """Steps of the answer that is being written in a step, itself last: those since something was said or rewritten."""
    way = path(rollout, step)
    for k in range(len(way) - 1, 0, -1):
        if _heard(rollout, way[k]):
            return way[k:]
    return way


def answer_begins(rollout: Trajectory) -> int:
    """The step in which the answer begins that ends the rollout (its last branch, where it forks)."""
    return answer_steps(rollout, len(rollout.steps) - 1)[0]


def spoken_to_after(rollout: Trajectory, step: int) -> bool:
    """Something was said to the policy, or rewritten, on a branch behind this step."""
    behind = {step}
    for s in range(step + 1, len(rollout.steps)):
        parent = rollout.steps[s].parent
        if (s - 1 if parent is None else parent) in behind:
            if _heard(rollout, s):
                return True
            behind.add(s)
    return False


def answer_ids(rollout: Trajectory, upto: Place) -> list[int]:
    """Sampled ids of the answer, up to a place."""
    out: list[int] = []
    for s in answer_steps(rollout, upto.step):
        ids = rollout.steps[s].ids
        out += [] if ids is None else list(map(int, ids))[: upto.token if s == upto.step else None]
    return out


def answer_text(rollout: Trajectory, upto: Place) -> str:
    """Text of the answer, up to a place counted in words."""
    *before, last = answer_steps(rollout, upto.step)
    return "".join([*(rollout.steps[s].action or "" for s in before), action_text(rollout.steps[last], 0, upto.token)])


def recorded_answer(rollout: Trajectory, spell: Callable[[Sequence[int]], str | None]) -> str:
    """The last answer of a recorded rollout as text; its ids are spelled only where there is no text.

    Raises:
        ConfigError: it is ids alone, and nobody can spell them.
    """
    last = len(rollout.steps) - 1
    steps = [rollout.steps[s] for s in answer_steps(rollout, last)]
    if all(step.action is not None for step in steps):
        return "".join(step.action or "" for step in steps)
    text = spell(answer_ids(rollout, Place(0, last, sampled(rollout.steps[last]))))
    if text is None:
        raise ConfigError(f"the answer of rollout {rollout.id} is token ids alone; give the policy's tokenizer")
    return text


def needs_spelling(ask: Continue, rollout: Trajectory) -> bool:
    """The written part of the answer is known as ids alone."""
    written = [rollout.steps[s] for s in answer_steps(rollout, ask.at.step)[:-1]]
    first = ask.first is not None and not isinstance(ask.first, str)
    return has_ids(rollout) and (ask.at.token > 0 or first or any(step.action is None for step in written))


def branch_of(rollout: Trajectory, step: int) -> Trajectory:
    """The way to a step as a rollout without forks; the rollout itself where nothing forks."""
    if all(step.parent in (None, s - 1) for s, step in enumerate(rollout.steps)):
        return rollout
    return replace(rollout, steps=[replace(rollout.steps[s], parent=None) for s in path(rollout, step)])


def _heard(rollout: Trajectory, s: int) -> bool:
    """Something stands before the action of this step beside what its parent saw and wrote."""
    step = rollout.steps[s]
    if not step.fresh:
        return len(step.prompt_ids) > 0 if step.prompt_ids is not None else bool(step.observation)
    if not has_ids(rollout):
        return True
    before = s - 1 if step.parent is None else step.parent
    if before < 0:
        return True
    # a branch writes its whole prompt out, which may be no other than it was
    assert step.prompt_ids is not None
    return list(map(int, step.prompt_ids)) != context_ids(rollout, Place(0, before, sampled(rollout.steps[before])))
