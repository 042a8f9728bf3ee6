"""A rollout in the blocks that a judge is shown, in time order."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

from apportion.asks import Judge, Place, Value
from apportion.data import Step, Trajectory
from apportion.resources.context import sampled
from apportion.resources.judge_template import Template
from apportion.resources.rollout_text import Decode, NoText, action_between, observation_of

EARLIER = "earlier action"
KEPT = 16
"""Rollouts whose blocks are kept: a judge that is asked about every step is shown the steps before it every time."""


@dataclass(frozen=True, slots=True)
class Block:
    """Text under a title; ``own``: the agent wrote it."""

    title: str
    text: str
    own: bool


def blocks_of(
    template: Template, ask: Judge | Value, rollout: Trajectory, numbers: range, decode: Decode | None
) -> list[Block]:
    """Everything shown; a unit that reaches over several steps has a block in each.

    Raises:
        NoText: units out of order, or no text where it is needed.
    """
    begins, until = _marks(ask)
    if list(begins) != sorted(begins):
        raise NoText("the units of a judge are shown in time order; give their places in that order")
    begun_at: dict[int, list[int]] = {}
    for k, place in enumerate(begins):
        begun_at.setdefault(place.step, []).append(k)
    out = [Block("reference", rollout.reference or "", own=False)] if template.privileged else []
    # what an ask about one unit shows before it, the asks about later units show too
    first = min(begins[0].step if begins else len(rollout.steps), len(rollout.steps) if until is None else until.step)
    out += _earlier(rollout, first, decode)
    unit = -1  # that is being written; -1: none that is asked about
    for s in range(first, len(rollout.steps)):
        step = rollout.steps[s]
        if until is not None and s > until.step:
            break
        out += _observed(rollout, s, decode)
        size = sampled(step) if until is None or s < until.step else until.token
        token, new = 0, False
        for following in (*begun_at.get(s, ()), None):
            stop = size if following is None else min(begins[following].token, size)
            if stop > token or new:
                own = f"{template.unit} {numbers[unit]}" if unit >= 0 else EARLIER
                title = f"{own}{_by(step)}" + ("" if new or unit < 0 else ", continued")
                out.append(Block(title, action_between(rollout, s, token, stop, decode), own=True))
            token = stop
            if following is not None:
                unit, new = following, True
    if until is None and rollout.final_observation:
        out.append(Block("observation at the end", rollout.final_observation, own=False))
    return out


def _marks(ask: Judge | Value) -> tuple[tuple[Place, ...], Place | None]:
    """Where the units that are asked about begin, and what comes too late to be shown."""
    if isinstance(ask, Value):
        return (), ask.at
    if ask.focus is None:
        return ask.units, None
    after = ask.units[ask.focus + 1 : ask.focus + 2]
    return (ask.units[ask.focus],), after[0] if after else None


def _earlier(rollout: Trajectory, steps: int, decode: Decode | None) -> list[Block]:
    """Blocks of the first ``steps`` steps."""
    return _kept(rollout, decode).upto(min(steps, len(rollout.steps)))


class _Earlier:
    """Blocks of the first steps, none of which is asked about, and how many of them come before each step."""

    def __init__(self, rollout: Trajectory, decode: Decode | None) -> None:
        self._rollout, self._decode = rollout, decode
        self._blocks: list[Block] = []
        self._ends = [0]
        self._lock = Lock()

    def upto(self, steps: int) -> list[Block]:
        with self._lock:
            for s in range(len(self._ends) - 1, steps):
                more = _observed(self._rollout, s, self._decode) + _done(self._rollout, s, self._decode)
                self._blocks += more
                self._ends.append(len(self._blocks))
            return self._blocks[: self._ends[steps]]


@lru_cache(maxsize=KEPT)
def _kept(rollout: Trajectory, decode: Decode | None) -> _Earlier:
    return _Earlier(rollout, decode)


def _observed(rollout: Trajectory, s: int, decode: Decode | None) -> list[Block]:
    text = observation_of(rollout, s, decode)
    title = f"observation before step {s + 1} of the rollout" if s else "task"
    return [Block(title, text, own=False)] if text else []


def _done(rollout: Trajectory, s: int, decode: Decode | None) -> list[Block]:
    step = rollout.steps[s]
    size = sampled(step)
    text = action_between(rollout, s, 0, size, decode) if size else ""
    return [Block(f"{EARLIER}{_by(step)}", text, own=True)] if size else []


def _by(step: Step) -> str:
    """Name of the agent, which stands on a line of ours."""
    if not step.agent:
        return ""
    return " by " + "".join(c if c.isalnum() or c in "_-." else "_" for c in step.agent)[:40]
