"""`Step` and `Trajectory`: one rollout as its author thinks of it.

Ids are the truth. A step may carry token ids (what the engine saw and sampled), text, or both. A log that has
only text is usable, and marked: its tokens are words and have no ids (`Batch.has_ids`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from typing import Any, cast

import numpy as np

from apportion.errors import DataError
from apportion.numerics import Array, FloatArray, IntArray

LARGEST_ID = 2**31 - 1
"""Vocabularies are far smaller, and files and devices hold ids in 32 bits."""


def _ids(name: str, value: Sequence[int] | IntArray | None) -> IntArray | None:
    if value is None:
        return None
    array = _flat(name, value, "token ids, not text or floats")
    if array.size and array.dtype.kind not in "iu":
        raise DataError(f"{name} must be integers, got {array.dtype}; give token ids, not text or floats")
    out = array.astype(np.int64)
    unsigned = out.view(np.uint64)  # one look for both ends: a negative number is huge
    if out.size and unsigned.max() > LARGEST_ID:
        raise DataError(f"{name} holds {array[unsigned.argmax()]}; token ids lie between 0 and 2**31 - 1")
    out.flags.writeable = False
    return out


def _columns(value: Any) -> Any:
    """Arrays by name; anything but a mapping unchanged, for the check to name."""
    if type(value) is dict and not value:
        return {}
    if not isinstance(value, Mapping):
        return value
    return {name: _floats(f"columns[{name!r}]", column) for name, column in value.items()}


def _parts(value: Any) -> Any:
    """Numbers by name; anything but a mapping unchanged, for the check to name."""
    if type(value) is dict and not value:
        return {}
    return {name: _number(part) for name, part in value.items()} if isinstance(value, Mapping) else value


def _floats(name: str, value: Sequence[float] | FloatArray | None) -> FloatArray | None:
    if value is None:
        return None
    array = _flat(name, value, "numbers, one per sampled token")
    if array.size and array.dtype.kind not in "fiu":
        odd = next((x for x in value if isinstance(x, bool) or not isinstance(x, int | float)), array.dtype)
        raise DataError(f"{name} must be numbers, got {str(odd)[:40]!r}; give one per sampled token")
    array = array.astype(np.float64)
    array.flags.writeable = False
    return array


def _flat(name: str, value: Any, what: str) -> Array:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):  # ragged lists; tensors that NumPy cannot see
        raise DataError(f"{name} cannot be read as one flat array; give {what}") from None
    if array.ndim != 1:
        raise DataError(f"{name} has {array.ndim} dimensions; give one flat list of {what}")
    return array


def _scalar(value: Any) -> Any:
    """NumPy's scalars as Python's own; anything else unchanged, for the check to name."""
    return value.item() if isinstance(value, np.bool_ | np.integer | np.floating) else value


def _number(value: Any) -> Any:
    """An integer as a float, so that a reward is the same after every file format."""
    value = _scalar(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST:
        return float(value)
    return value


LARGEST = 2**63 - 1
"""Integers from here on are no rewards."""
_MEASURED = (float, type(None))


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One transition: what the policy saw, what it sampled, and what came back.

    Attributes:
        observation: text that is new before this step (prompt, tool result, message). None = no text logged.
        action: text that the policy sampled.
        prompt_ids: token ids of the new context, in place; with ``fresh`` the whole prompt.
        ids: token ids that were sampled, exactly as the engine returned them.
        fresh: the prompt does not extend the tokens of the step before (a rewritten or compacted context).
        logp: log-probability of each sampled token under the behaviour policy, nats.
        ref_logp: the same under a reference policy, nats.
        entropy: entropy of the distribution each token was drawn from, nats.
        value: value of the state before the action, reward units.
        token_values: value before each sampled token, reward units.
        columns: further numbers by name, one per sampled token (a process reward, Σ π² over the vocabulary, …). Names
            are identifiers; those ending in reward or value hold reward units.
        reward: reward that follows this action. None = not scored, which is not 0.
        rewards: named parts of it, reward units; they inform methods that weigh parts, and are never added to it.
        state: what to compare states by; None = the observation.
        terminated: the task ended here. truncated: a limit ended it here. failed: infrastructure broke here
            (sandbox, tool server), so what follows says nothing about the policy.
        turn: turn index; None = count changes of speaker.
        agent: who acted.
        actions: admissible actions, where the environment lists them.
        parent: index of the previous step in this trajectory; None = the one before (a chain).
        extra: anything else, JSON values.
    """

    observation: str | None = None
    action: str | None = None
    prompt_ids: IntArray | Sequence[int] | None = None
    ids: IntArray | Sequence[int] | None = None
    fresh: bool = False
    logp: FloatArray | Sequence[float] | None = None
    ref_logp: FloatArray | Sequence[float] | None = None
    entropy: FloatArray | Sequence[float] | None = None
    value: float | None = None
    token_values: FloatArray | Sequence[float] | None = None
    columns: Mapping[str, FloatArray | Sequence[float]] = field(default_factory=dict)
    reward: float | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    state: str | None = None
    terminated: bool = False
    truncated: bool = False
    failed: bool = False
    turn: int | None = None
    agent: str | None = None
    actions: tuple[str, ...] | None = None
    parent: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _settle(self)
        for name, held in (("columns", self.columns), ("rewards", self.rewards)):
            if type(held) is dict and not held:  # whoever fills his dict later does not fill this one
                object.__setattr__(self, name, {})


def _settle(step: Step) -> None:
    """Convert what a new step was given. Most fields of most steps are absent: those cost one comparison each."""
    put = object.__setattr__
    if step.prompt_ids is not None:
        put(step, "prompt_ids", _ids("prompt_ids", step.prompt_ids))
    if step.ids is not None:
        put(step, "ids", _ids("ids", step.ids))
    if step.logp is not None:
        put(step, "logp", _floats("logp", step.logp))
    if step.ref_logp is not None:
        put(step, "ref_logp", _floats("ref_logp", step.ref_logp))
    if step.entropy is not None:
        put(step, "entropy", _floats("entropy", step.entropy))
    if step.token_values is not None:
        put(step, "token_values", _floats("token_values", step.token_values))
    if step.columns:
        put(step, "columns", _columns(step.columns))
    if step.rewards:
        put(step, "rewards", _parts(step.rewards))
    if type(step.value) not in _MEASURED:
        put(step, "value", _number(step.value))
    if type(step.reward) not in _MEASURED:
        put(step, "reward", _number(step.reward))
    if type(step.fresh) is not bool:
        put(step, "fresh", _scalar(step.fresh))
    if type(step.terminated) is not bool:
        put(step, "terminated", _scalar(step.terminated))
    if type(step.truncated) is not bool:
        put(step, "truncated", _scalar(step.truncated))
    if type(step.failed) is not bool:
        put(step, "failed", _scalar(step.failed))
    if step.turn is not None:
        put(step, "turn", _scalar(step.turn))
    if step.parent is not None:
        put(step, "parent", _scalar(step.parent))
    if step.actions is not None and not isinstance(step.actions, str):
        put(step, "actions", tuple(step.actions))


_Open: Any = make_dataclass(
    "_Open",
    [(f.name, Any, field(default=f.default, default_factory=f.default_factory)) for f in fields(Step)],
    slots=True,
    eq=False,
)


def step_of(given: Mapping[str, Any]) -> Step:
    """``Step(**given)`` in a third of the time, for readers that make millions and hand over what they made.

    A frozen class sets each of its fields through a function call. One with the same slots that is not frozen stores
    them, and then becomes a step.
    """
    step: Any = _Open(**given)
    step.__class__ = Step
    _settle(step)
    return cast(Step, step)


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """One rollout of one task.

    Attributes:
        steps: the transitions in time order.
        group: identity of the task instance *and* its start state; equal groups are compared with each other.
            None = a group of its own. Never guessed from prompt tokens.
        id: name of the rollout; None = its position in the batch.
        outcome: return of the whole episode. None = not given: then the step rewards add up to it.
        outcomes: named parts of it (correct, format, length, …), reward units; never added to it.
        final_observation: text after the last action, where it was logged.
        final_value: value of the state after the last action; a truncated trajectory bootstraps with it.
        reference: artefact for training time only (gold answer, hidden tests); never part of a prompt.
        meta: anything else, JSON values.
    """

    steps: tuple[Step, ...] | Sequence[Step]
    group: str | None = None
    id: str | None = None
    outcome: float | None = None
    outcomes: Mapping[str, float] = field(default_factory=dict)
    final_observation: str | None = None
    final_value: float | None = None
    reference: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        object.__setattr__(self, "outcomes", _parts(self.outcomes))
        for name in ("outcome", "final_value"):
            object.__setattr__(self, name, _number(getattr(self, name)))

    @property
    def scored(self) -> bool:
        """There is an outcome, or the last step has a reward."""
        return self.outcome is not None or (bool(self.steps) and self.steps[-1].reward is not None)

    @property
    def total(self) -> float | None:
        """The outcome, or the sum of the step rewards; None when not scored."""
        if self.outcome is not None:
            return self.outcome
        if not self.scored:
            return None
        return float(sum(step.reward for step in self.steps if step.reward is not None))
