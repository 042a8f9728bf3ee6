"""The text of a rollout's parts, as another model is shown them; ids are decoded only where there is no text."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from apportion.data import Trajectory
from apportion.resources.context import action_text, plain, sampled

Decode = Callable[[list[int]], str]
"""Token ids to text, of the policy's tokenizer."""


class NoText(ValueError):
    """This rollout cannot be shown; says why and what to do."""


class TooLong(NoText):
    """This rollout is too long to be shown, others may not be."""


def remembered(decode: Decode) -> Decode:
    """The same, but the parts that were decoded last are known: each prompt of a rollout begins as the others do."""
    known = lru_cache(maxsize=1024)(lambda ids: decode(list(ids)))
    return lambda ids: known(tuple(ids))


def observation_of(rollout: Trajectory, s: int, decode: Decode | None) -> str:
    """Context that is new before step ``s``."""
    step = rollout.steps[s]
    if step.observation is not None:
        return step.observation
    ids = plain(step.prompt_ids)
    if not ids:
        return ""
    if decode is None:
        raise NoText(f"step {s} has token ids and no observation; give Step.observation, or decode=tokenizer.decode")
    return decode(ids)


def action_between(rollout: Trajectory, s: int, first: int, last: int, decode: Decode | None) -> str:
    """What was written at step ``s`` from one sampled token up to another."""
    step = rollout.steps[s]
    if step.ids is None:
        return action_text(step, first, last)
    if step.action is not None and first == 0 and last == sampled(step):
        return step.action
    if decode is None:
        what = "has token ids and no text" if step.action is None else "is divided between its tokens"
        raise NoText(
            f"the action of step {s} {what}; give decode=tokenizer.decode, or credit whole steps that have text"
        )
    return decode(plain(step.ids)[first:last])
