"""Checks that every method passes, whatever it declares."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from apportion.data import Batch, Step, Trajectory
from apportion.numerics import Array
from apportion.testing.compare import assert_close, assert_same, pieces_of
from apportion.testing.pretend import credit_of
from apportion.testing.sample import failed, mute, recut, unscored
from apportion.testing.subject import Method, expect_data_error, plain_credit, subject_of
from apportion.units import COLUMNS, NAMED, Units
from apportion.units.units import BY_NAME


def check_is_pure(method: Method, units: Units) -> None:
    """The input is untouched, and the same input gives the same result, bit by bit."""
    subject = subject_of(method)
    before = _arrays(units)
    first = subject(units)
    second = subject(units)
    for name, array in _arrays(units).items():
        assert _same_bits(array, before[name]), f"it changes {name} of its input; work on a copy"
    for name in ("advantage_S", "known_S", "train_S", "train_T"):
        a, b = getattr(first, name), getattr(second, name)
        same = a is b if a is None or b is None else _same_bits(a, b)
        assert same, f"the second call gives another {name}; keep no state, take a seed"
    assert list(first.parts) == list(second.parts), "the second call gives other parts"
    for name, part in first.parts.items():
        assert _same_bits(part, second.parts[name]), f"the second call gives another part {name!r}"
    assert dict(first.notes) == dict(second.notes), "the second call gives other notes"


def check_one_number_per_unit(method: Method, units: Units) -> None:
    """One finite float64 for each of these units, and exactly 0 where unknown."""
    subject = subject_of(method)
    credit = subject(units)
    finer = subject.spec is not None and subject.spec.kind == "transform" and credit.units.batch is units.batch
    assert credit.units is units or finer, "the credit is of other units than it was asked for; pass the units on"
    units = credit.units
    known_S = np.asarray(credit.known_S)
    for name, array in (("advantage_S", credit.advantage_S), *credit.parts.items()):
        assert array.shape == (len(units),), f"{name} has shape {array.shape} for {len(units)} units"
        assert array.dtype == np.float64, f"{name} is {array.dtype}; compute in float64"
        assert np.isfinite(array).all(), f"{name} is not finite everywhere"
        assert not array[np.logical_not(known_S)].any(), f"{name} is not 0 where the credit is unknown"


def check_trajectory_order(method: Method, units: Units) -> None:
    """Trajectories in another order get the same numbers."""
    subject = subject_of(method)
    rollouts = units.batch.trajectories
    order = np.random.default_rng(len(rollouts)).permutation(len(rollouts))
    moved = subject(recut(units, [rollouts[n] for n in order]))
    assert_same(pieces_of(moved), [pieces_of(subject(units))[n] for n in order], "in another order")


def check_group_names(method: Method, units: Units) -> None:
    """Groups under other names get the same numbers."""
    subject = subject_of(method)
    names = [f"{'z' * (9 - g % 9)}-{g}" for g in range(len(units.batch.group_names))]
    renamed = [
        dataclasses.replace(rollout, group=names[g])
        for rollout, g in zip(units.batch.trajectories, units.group_of_N.tolist(), strict=True)
    ]
    assert_same(pieces_of(subject(recut(units, renamed))), pieces_of(subject(units)), "under other group names")


def check_small_batches(method: Method, units: Units) -> None:
    """One trajectory alone, a trajectory of one step, and a step of one token get finite numbers.

    A few trajectories of the batch are tried.
    """
    subject = subject_of(method)
    for n, rollout in enumerate(units.batch.trajectories[:5]):
        one_step = dataclasses.replace(rollout, steps=[_only(rollout.steps[-1])])
        one_token = dataclasses.replace(rollout, steps=[_only(_one_token(rollout.steps[-1]))])
        for small, what in ((rollout, "alone"), (one_step, "cut to one step"), (one_token, "cut to one token")):
            cut = recut(units, [small])
            if "reward_S" in subject.reads and not cut.batch.scored_N.any():
                continue  # nothing to read: refused, see check_missing_columns
            try:
                check_one_number_per_unit(subject, cut)
            except AssertionError as problem:
                raise AssertionError(f"trajectory {n} {what}: {problem}") from problem


def check_unknown_members(method: Method, units: Units) -> None:
    """Members that broke, said nothing or were not scored are unknown, and change nobody else's numbers."""
    subject = subject_of(method)
    rollouts = list(units.batch.trajectories)
    alone = pieces_of(subject(units))
    for spoil in (mute, failed, *((unscored,) if subject.needs_score else ())):
        member = _first_member_per_group(units)
        guests = [dataclasses.replace(spoil(rollouts[n]), id=f"guest-{n}") for n in member]
        credit = subject(recut(units, [*rollouts, *guests]))
        pieces = pieces_of(credit)
        assert_same(pieces[: len(rollouts)], alone, f"beside {spoil.__name__} members")
        known = np.asarray(credit.known_S)[credit.units.traj_of_S >= len(rollouts)]
        assert not known.any(), f"{spoil.__name__} members are known; leave them out of known_S"


def check_context_tokens(method: Method, units: Units) -> None:
    """Tokens that the policy did not sample change nothing, however many are put in."""
    subject = subject_of(method)
    batch = units.batch
    rng = np.random.default_rng(len(batch.ids_T))
    at, longer = 0, []
    for rollout in batch.trajectories:
        steps = []
        for step in rollout.steps:
            as_before: dict[str, Any] = {"state": str(batch.state_S[at]), "turn": int(batch.turn_S[at])}
            steps.append(dataclasses.replace(step, **as_before, **_more_context(step, rng)))
            at += 1
        longer.append(dataclasses.replace(rollout, steps=steps))
    assert_same(pieces_of(subject(recut(units, longer))), pieces_of(subject(units)), "with more context tokens")


def check_parts_add_up(method: Method, units: Units) -> None:
    """The named parts sum to the credit."""
    credit = subject_of(method)(units)  # `Credit` refuses others, unless somebody went around it
    if credit.parts:
        parts = list(credit.parts.values())
        # parts may be large and cancel, so their rounding is measured against them
        largest = max(float(np.abs(part).max(initial=0.0)) for part in parts)
        assert_close(np.sum(parts, axis=0), credit.advantage_S, "the parts miss the credit", largest)


def check_made_again(method: Method, units: Units) -> None:
    """The credit carries its method and parameters, they survive JSON, and they give the same credit."""
    subject = subject_of(method)
    spec = subject.spec
    if spec is None:
        return
    credit = subject(units)
    transform = spec.kind == "transform"
    name = credit.method.split(" | ")[-1]
    assert name == spec.name, f"the credit says it was made by {credit.method!r}, not {spec.name!r}"
    params: dict[str, Any] = dict(credit.params[name]) if transform else dict(credit.params)
    try:
        stored = json.loads(json.dumps(params))
    except (TypeError, ValueError) as problem:
        raise AssertionError(f"its parameters do not go through JSON: {problem}") from problem
    assert set(stored) == set(spec.defaults), f"it records the parameters {sorted(stored)}, not all it has"
    again = spec.call(plain_credit(units), **stored) if transform else credit_of(spec, units, stored)
    same = _same_bits(again.advantage_S, credit.advantage_S)
    assert same, f"called again with the parameters it records, {stored}, it gives other credit"


def check_missing_columns(method: Method, units: Units) -> None:
    """Without a column that it declares to read, it raises a DataError that names itself and the column."""
    subject = subject_of(method)
    if subject.spec is None:
        return
    for column in subject.reads:
        expect_data_error(subject, without(units, column), f"without {column}", subject.name, column)


def check_reads_are_declared(method: Method, units: Units) -> None:
    """Columns that it does not declare to read make no difference, also when they are absent."""
    subject = subject_of(method)
    if subject.spec is None:
        return
    seen = {*subject.reads, *(("reward_S",) if subject.needs_score else ())}
    hidden = [column for column in (*COLUMNS, *(f"column:{name}" for name in units.columns)) if column not in seen]
    want = pieces_of(subject(units))
    for column in hidden:
        if column == "reward_S":
            less = units.with_reward(np.arange(len(units)) * 0.37 - 1.0)
        else:
            less = without(units, column)
        try:
            assert_same(pieces_of(subject(less)), want, f"without {column}")
        except AssertionError as problem:
            raise AssertionError(f"it uses {column}, which `reads` does not declare: {problem}") from problem


def check_forks(method: Method, units: Units) -> None:
    """Trajectories that fork: a method along time refuses them, any other gives finite numbers."""
    subject = subject_of(method)
    forked = recut(units, [_forked(rollout) for rollout in units.batch.trajectories])
    if forked.is_chain:
        return  # this cut does not see forks
    if subject.spec is not None and subject.spec.chain:
        expect_data_error(subject, forked, "on trajectories that fork", subject.name, "forks")
    else:
        check_one_number_per_unit(subject, forked)


def without(units: Units, column: str) -> Units:
    """The same units without one of the columns that methods read."""
    if column == "reward_S":
        return recut(units, [unscored(rollout) for rollout in units.batch.trajectories])
    if column == "agent_S":
        nobody = np.empty(len(units), dtype=object)
        nobody[:] = ""
        return dataclasses.replace(units, agent_S=nobody)
    kind, _, name = column.partition(":")
    if name:
        field = BY_NAME[kind][0]
        less: Any = {key: array for key, array in getattr(units, field).items() if key != name}
        return dataclasses.replace(units, **{field: less})
    absent: dict[str, Any] = {column: {} if column in NAMED else None}
    return dataclasses.replace(units, **absent)


def _only(step: Step) -> Step:
    return dataclasses.replace(step, parent=None)


def _one_token(step: Step) -> Step:
    one: dict[str, Any] = {"action": "word", "ids": None if step.ids is None else [7]}
    for name in ("logp", "ref_logp", "entropy", "token_values"):
        if getattr(step, name) is not None:
            one[name] = [-0.5]
    one["columns"] = {name: [0.5] for name in step.columns}
    return dataclasses.replace(step, **one)


def _more_context(step: Step, rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(0, 4))
    if step.ids is None:
        return {"observation": (step.observation or "") + " more" * size}
    context = [] if step.prompt_ids is None else step.prompt_ids.tolist()  # type: ignore[union-attr]
    return {"prompt_ids": [*context, *rng.integers(0, 1000, size=size).tolist()]}


def _forked(rollout: Trajectory) -> Trajectory:
    """The third step continues the first, not the second."""
    steps = [dataclasses.replace(step, parent=0 if s == 2 else step.parent) for s, step in enumerate(rollout.steps)]
    return dataclasses.replace(rollout, steps=steps)


def _first_member_per_group(units: Units) -> list[int]:
    return [int(n) for n in np.unique(units.group_of_N, return_index=True)[1]]


def _arrays(units: Units) -> dict[str, Array]:
    """A copy of every array a method can reach."""
    holders: tuple[tuple[str, Units | Batch], ...] = (("units", units), ("units.batch", units.batch))
    out = {}
    for where, holder in holders:
        for field in dataclasses.fields(holder):
            value = getattr(holder, field.name)
            if isinstance(value, np.ndarray):
                out[f"{where}.{field.name}"] = value.copy()
            elif isinstance(value, Mapping):
                arrays = {key: array for key, array in value.items() if isinstance(array, np.ndarray)}
                out |= {f"{where}.{field.name}[{key!r}]": array.copy() for key, array in arrays.items()}
    return out


def _same_bits(a: Array, b: Array) -> bool:
    if a.dtype == object:
        return bool(a.tolist() == b.tolist())
    return bool(a.shape == b.shape and a.tobytes() == b.tobytes())
