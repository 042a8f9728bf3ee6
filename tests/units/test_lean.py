"""Lean columns give the numbers of the ordinary way bit for bit, or say that they cannot."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from apportion.data import Batch, Step, Trajectory
from apportion.data.columnar import schema_of
from apportion.data.columnar_write import record_batches
from apportion.data.lean import NotLean, Unread, unread
from apportion.data.lean_read import lean_batch
from apportion.errors import ApportionError
from apportion.methods import get, names
from apportion.testing import random_trajectories
from apportion.units import CUTS
from apportion.units.lean import LEVELS, lean_units
from tests.contract.test_parameters import options

READS = ("state_S", "value_S", "logp_S", "ref_logp_S", "entropy_S")
COLUMNS = ("prm_logp", "prob_square")


def rows_of(trajectories):
    (rows,) = record_batches(pa, schema_of(pa), trajectories, rows=10**6, weight=10**9)
    return rows


def rollouts(seed):
    """Random ones, half of them without turns, states or agents of their own."""
    out = []
    for t in random_trajectories(seed, columns=COLUMNS):
        steps = [
            dataclasses.replace(
                step,
                turn=k // 2 if seed % 2 else None,
                state=step.observation[:7] if (k if seed % 3 else k % 2) else None,
                agent=step.agent if seed % 4 else None,
            )
            for k, step in enumerate(t.steps)
        ]
        if len(out) % 4 == 1:  # broken before its end
            steps[0] = dataclasses.replace(steps[0], failed=True)
        if len(out) % 4 == 2:  # ended, and at the limit
            steps[-1] = dataclasses.replace(steps[-1], terminated=True, truncated=True)
        out.append(dataclasses.replace(t, steps=steps, group=None if seed % 5 == 4 else t.group))
    return out


def same(lean, full, name):
    a, b = getattr(lean, name), getattr(full, name)
    if isinstance(a, Unread):
        return False
    if name == "state_S":
        assert [np.flatnonzero(a == x).tolist() for x in a] == [np.flatnonzero(b == x).tolist() for x in b]
    elif b is None or b.dtype == object:
        assert b is not None
        assert a.tolist() == b.tolist()
    else:
        assert a.dtype == b.dtype, name
        assert a.tobytes() == b.tobytes(), name
    return True


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(30))
def test_every_column_that_is_there_is_that_of_the_ordinary_cut(seed, level):
    given = rollouts(seed)
    columns = lean_batch(pa, rows_of(given), READS)
    if level == "turn" and not seed % 2:
        with pytest.raises(NotLean, match="turns that are counted by who speaks"):
            lean_units(columns, level)
        return
    lean = lean_units(columns, level)
    full = CUTS[level](Batch.from_trajectories(given))
    names = [name for name in full.__slots__ if isinstance(getattr(full, name), np.ndarray)]
    there = {name for name in names if same(lean, full, name)}
    assert set(names) - there == {"unit_of_T"} | (set() if seed % 2 else {"turn_S"})


def credited(call, units):
    credit = call(units)
    arrays = (credit.advantage_S, credit.known_S, credit.train_S, *credit.parts.values())
    return [np.asarray(a).tobytes() for a in arrays], list(credit.parts)


@pytest.mark.parametrize("name", [name for name in names("method") if not get(name).needs])
def test_a_method_gets_the_same_bits_or_reaches_for_what_is_not_there(name):
    spec = get(name)
    for level in LEVELS:
        if spec.units and level not in spec.units:
            continue
        for seed in range(1, 4):
            given = rollouts(seed)
            full = CUTS[level](Batch.from_trajectories(given))
            for key in ("", *spec.defaults):
                for value in options(name, key)[0] if key else [None]:
                    params = {**spec.example, **({key: value} if key else {})}
                    call = lambda units, params=params: spec.call(units, **params)  # noqa: E731
                    try:
                        lean = credited(call, lean_units(lean_batch(pa, rows_of(given), spec.reads), level))
                    except Exception:
                        continue  # the ordinary way judges
                    try:
                        assert lean == credited(call, full), (level, seed, params)
                    except ApportionError as error:
                        raise AssertionError(f"{name} {params} is refused the ordinary way: {error}") from error


def test_pseudo_tokens_are_nobodys_tokens():
    units = lean_units(lean_batch(pa, rows_of(rollouts(1)), READS), "step")
    for name in ("ids_T", "sampled_T", "step_of_T", "logp_T", "columns_T", "reward_parts", "trajectories"):
        with pytest.raises(NotLean):
            getattr(units.batch, name)
    assert len(units.batch) == len(units.group_of_N)


@pytest.mark.parametrize(
    "broken",
    [
        {"terminated": True},
        {"reward": float("nan")},
        {"parent": -1},
        {"ids": None},
        {"turn": -3},
    ],
)
def test_what_the_ordinary_way_must_judge_is_left_to_it(broken):
    good = {"action": "a", "ids": [1], "prompt_ids": [2], "reward": 1.0, "turn": 0, "state": "s"}
    rows = rows_of([Trajectory([Step(**good), Step(**good)], group="g", id="1")])
    lean_batch(pa, rows, READS[:1])
    record = rows.to_pylist()
    record[0]["steps"][0].update(broken)
    with pytest.raises(NotLean):
        lean_batch(pa, pa.RecordBatch.from_pylist(record, schema=rows.schema), READS[:1])


def test_a_column_that_was_not_read_cannot_be_used():
    column = unread(3)
    assert len(column) == 3
    for use in (
        lambda: column + 1,
        lambda: column[0],
        lambda: np.sum(column),
        lambda: list(column),
        lambda: column >= 0,
        lambda: np.asarray(column, dtype=np.float64),
        lambda: np.asarray(column, dtype=np.int64),
    ):
        with pytest.raises((NotLean, TypeError)):
            use()
