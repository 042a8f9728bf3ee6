"""Every precondition of a batch: one function and one sentence each. Called once, when a `Batch` is built."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apportion.data.trajectory import Step, Trajectory
from apportion.errors import DataError

PER_TOKEN = ("logp", "ref_logp", "entropy", "token_values")
FLAGS = ("fresh", "terminated", "truncated", "failed")
_TEXT = (str, type(None))


def check_batch(trajectories: Sequence[Trajectory], *, checked: bool = False) -> None:
    """Raise the first `DataError` of the batch; ``checked``: every trajectory by itself is known to be good."""
    if not trajectories:
        raise DataError("the batch has no trajectories; give at least one")
    names: dict[str, int] = {}
    for n, trajectory in enumerate(trajectories):
        if not isinstance(trajectory, Trajectory):
            raise DataError(f"item {n} is a {type(trajectory).__name__}; give apportion.Trajectory objects")
        if not checked:
            check_trajectory(trajectory, where(n, trajectory))
        if trajectory.id is not None and names.setdefault(trajectory.id, n) != n:
            raise DataError(
                f"trajectory {n}: id {trajectory.id!r} is taken by trajectory {names[trajectory.id]}; "
                "ids are unique in a batch (drop the id to number them)"
            )


def without_repeated_ids(trajectories: Sequence[Trajectory]) -> Sequence[Trajectory]:
    """The same rollouts, all without ids if two have the same: what several writers numbered alike is no name."""
    told = [trajectory.id for trajectory in trajectories if trajectory.id is not None]
    if len(set(told)) == len(told):
        return trajectories
    return [dataclasses.replace(trajectory, id=None) for trajectory in trajectories]


def where(n: int, trajectory: Trajectory) -> str:
    """How a message names a trajectory: its position, and its id where it has one."""
    return f"trajectory {n}" + (f" ({trajectory.id!r})" if trajectory.id is not None else "")


def check_trajectory(trajectory: Trajectory, at: str) -> None:
    """Raise the first `DataError` of one trajectory; ``at`` says where it stands."""
    if not trajectory.steps:
        raise DataError(f"{at}: no steps; a rollout that did nothing is one step with an empty action")
    check_fields(trajectory, at)
    last = len(trajectory.steps) - 1
    for s, step in enumerate(trajectory.steps):
        if not isinstance(step, Step):
            raise DataError(f"{at}, step {s} is a {type(step).__name__}; give apportion.Step objects")
        try:
            check_step(step, "")
        except DataError as error:  # the place is spelled out only where it is needed
            raise DataError(f"{at}, step {s}{error}") from None
        if (step.terminated or step.truncated) and s < last and trajectory.steps[s + 1].parent is None:
            flag = "terminated" if step.terminated else "truncated"
            raise DataError(
                f"{at}, step {s} is {flag} but step {s + 1} follows; "
                "move the flag to the last step or split the trajectory"
            )
        if step.parent is not None and not (_is_int(step.parent) and -1 <= step.parent < s):
            raise DataError(
                f"{at}, step {s}: parent is {step.parent!r}; give the index of an earlier step, or -1 for a root"
            )


def check_fields(trajectory: Trajectory, at: str) -> None:
    """Raise the first `DataError` of what one trajectory says of itself, its steps left aside."""
    _strings(trajectory, ("group", "id", "reference", "final_observation"), at)
    if not isinstance(trajectory.meta, Mapping):
        raise DataError(f"{at}: meta is a {type(trajectory.meta).__name__}; give a dict")
    for name in ("outcome", "final_value"):
        _finite(getattr(trajectory, name), at, name)
    _named(trajectory.outcomes, at, "outcomes")


def check_step(step: Step, at: str) -> None:
    """Raise the first `DataError` of one step."""
    if not (
        isinstance(step.observation, _TEXT)
        and isinstance(step.action, _TEXT)
        and isinstance(step.state, _TEXT)
        and isinstance(step.agent, _TEXT)
    ):
        _strings(step, ("observation", "action", "state", "agent"), at)
    if not (
        isinstance(step.fresh, bool)
        and isinstance(step.terminated, bool)
        and isinstance(step.truncated, bool)
        and isinstance(step.failed, bool)
    ):
        name = next(name for name in FLAGS if not isinstance(getattr(step, name), bool))
        raise DataError(f"{at}: {name} is {getattr(step, name)!r}; give True or False")
    if type(step.extra) is not dict and not isinstance(step.extra, Mapping):
        raise DataError(f"{at}: extra is a {type(step.extra).__name__}; give a dict")
    if step.actions is not None:
        bad = [action for action in step.actions if not isinstance(action, str)]
        if bad or isinstance(step.actions, str):
            raise DataError(f"{at}: actions is {step.actions!r}; give a list of strings")
    if step.action is None and step.ids is None:
        raise DataError(f"{at}: neither ids nor action; give what the policy sampled, as token ids or as text")
    if step.ids is not None and step.prompt_ids is None and step.observation:
        raise DataError(
            f"{at}: the action has ids but the observation has only text; "
            "give prompt_ids too (token ids are never mixed with words)"
        )
    if step.ids is None and step.prompt_ids is not None:
        raise DataError(f"{at}: prompt_ids without ids; give the ids that were sampled, or only text")
    if step.logp is not None:
        _per_token(step.logp, step, at, "logp")
    if step.ref_logp is not None:
        _per_token(step.ref_logp, step, at, "ref_logp")
    if step.entropy is not None:
        _per_token(step.entropy, step, at, "entropy")
    if step.token_values is not None:
        _per_token(step.token_values, step, at, "token_values")
    if type(step.columns) is not dict and not isinstance(step.columns, Mapping):
        raise DataError(f"{at}: columns is a {type(step.columns).__name__}; give a dict of lists")
    for name, values in step.columns.items():
        _name(name, at, "columns")
        if name in PER_TOKEN:
            raise DataError(f"{at}: columns holds {name!r}, which is a field of its own; give it there")
        if values is None:
            raise DataError(f"{at}: columns[{name!r}] is None; leave the name out where there are no numbers")
        _per_token(values, step, at, f"columns[{name!r}]")
    _named(step.rewards, at, "rewards")
    _finite(step.reward, at, "reward")
    _finite(step.value, at, "value")
    if step.turn is not None and not (_is_int(step.turn) and step.turn >= 0):
        raise DataError(f"{at}: turn is {step.turn!r}; give an integer from 0 on")


def _per_token(values: Any, step: Step, at: str, name: str) -> None:
    if step.ids is None:
        raise DataError(f"{at}: {name} needs token ids; a text-only step has no tokens to hold it")
    label = {"logp": "log-probabilities", "ref_logp": "reference log-probabilities"}.get(name, name)
    if len(values) != len(step.ids):
        raise DataError(f"{at}: {len(values)} {label} for {len(step.ids)} sampled tokens; give one per sampled token")
    finite = np.isfinite(values)
    if not finite.all():
        broken = int(finite.argmin())
        raise DataError(
            f"{at}: {name} is {values[broken]} at sampled token {broken}; give a finite number, or leave {name} out"
        )


def _named(parts: Any, at: str, field: str) -> None:
    """Numbers by name."""
    if type(parts) is dict and not parts:
        return
    if not isinstance(parts, Mapping):
        raise DataError(f"{at}: {field} is a {type(parts).__name__}; give a dict of numbers")
    for name, value in parts.items():
        _name(name, at, field)
        if value is None:
            raise DataError(f"{at}: {field}[{name!r}] is None; leave the name out where it was not scored")
        _finite(value, at, f"{field}[{name!r}]")


def _name(name: Any, at: str, field: str) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise DataError(
            f"{at}: {field} has the name {name!r}; names are identifiers (letters, digits, _), as methods ask for them"
        )


def _strings(holder: Step | Trajectory, names: Sequence[str], at: str) -> None:
    for name in names:
        value = getattr(holder, name)
        if value is not None and not isinstance(value, str):
            raise DataError(f"{at}: {name} is a {type(value).__name__}; give a string")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(value: object, at: str, name: str) -> None:
    if value is None or (type(value) is float and math.isfinite(value)):
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"{at}: {name} is {value!r}; give a number, or None when it was not scored")
    if isinstance(value, int):  # smaller ones became floats
        raise DataError(f"{at}: {name} is an integer beyond 2**63; give a number that a float can hold")
    if not math.isfinite(value):
        raise DataError(f"{at}: {name} is {value}; give a finite number, or None when it was not scored")
