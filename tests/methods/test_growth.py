"""What every registered method costs as rollouts grow: time along steps and tokens, and memory beside its input.

Methods that ask are left out: an ask holds the transcript before its unit, so what they send grows with the square
of the steps by definition.
"""

import functools
import gc
import math
import time
import tracemalloc
import warnings

import numpy as np
import pytest

from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.methods import get, names
from apportion.testing.subject import plain_credit, subject_of
from apportion.units import CUTS, Units
from apportion.units.units import NAMED

pytestmark = pytest.mark.slow

SILENT = tuple(name for name in names() if get(name).plan is None)
STEPS, TOKENS, TIMES = 150, 8, 4
STEEPEST = 1.5
"""Largest power of the size that time may grow with: between linear, with sorting and caches, and quadratic."""


@functools.lru_cache(maxsize=8)
def units_of(level: str, columns: tuple[str, ...], steps: int, tokens: int) -> Units:
    rng = np.random.default_rng(0)

    def numbers(name, logp):
        if name.endswith("logp"):
            return -rng.exponential(size=tokens)
        return np.exp(2 * logp) if name.startswith("prob") else rng.normal(size=tokens)

    def step(s):
        logp = -rng.exponential(size=tokens)
        return Step(
            observation=f"state {rng.integers(steps // 2)}",
            action="word " * tokens,
            prompt_ids=rng.integers(0, 50, size=4),
            ids=rng.integers(0, 50, size=tokens),
            logp=logp,
            ref_logp=-rng.exponential(size=tokens),
            entropy=rng.exponential(size=tokens),
            token_values=rng.normal(size=tokens),
            value=float(rng.normal()),
            reward=float(rng.normal()),
            rewards={"format": 1.0, "work": float(rng.normal())},
            columns={name: numbers(name, logp) for name in columns},
            agent="planner" if s < steps // 2 else "coder",
        )

    rollouts = [
        Trajectory(
            [step(s) for s in range(steps)],
            group=f"task {n // 4}",
            outcomes={"correct": float(n % 2), "length": float(rng.normal())},
        )
        for n in range(8)
    ]
    return CUTS[level](Batch.from_trajectories(rollouts), **({"by": "fixed", "count": 2} if level == "segment" else {}))


def units_for(name, steps=STEPS, tokens=TOKENS):
    spec = get(name)
    columns = tuple(column.partition(":")[2] for column in spec.reads if column.startswith("column:"))
    return units_of(spec.unit, columns, steps, tokens)


def cpu_seconds(run):
    best = math.inf
    for _ in range(4):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def power(run, small, large):
    """Exponent of the growth from one input to another TIMES as large."""
    run(small)
    return math.log(cpu_seconds(lambda: run(large)) / cpu_seconds(lambda: run(small))) / math.log(TIMES)


def bytes_read(units, reads):
    """The maps, the ids, and the columns that a method says it reads."""
    batch = units.batch
    maps = [units.unit_of_T, units.traj_of_S, units.group_of_N, batch.ids_T, batch.sampled_T, batch.step_of_T]
    if units.runs is not None:
        maps += [units.runs.start_R, units.runs.size_R, units.runs.unit_R]
    for column in reads:
        kind, _, key = column.partition(":")
        value = units.columns[key] if kind == "column" else getattr(units, column)
        maps += [value] if column not in NAMED else list(value.values())
    return sum(array.nbytes for array in maps)


def bytes_made(credit):
    extra = [] if credit.train_T is None else [credit.train_T]
    return sum(a.nbytes for a in (credit.advantage_S, credit.known_S, credit.train_S, *credit.parts.values(), *extra))


def bytes_held(run, units):
    """Most memory at any time during a call, the result included."""
    run(units)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        credit = run(units)
        return tracemalloc.get_traced_memory()[1] - before, credit
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", SILENT)
def test_time_is_not_quadratic_in_steps_or_tokens(name):
    run = subject_of(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert power(run, units_for(name), units_for(name, steps=TIMES * STEPS)) < STEEPEST
        assert power(run, units_for(name), units_for(name, tokens=TIMES * TOKENS)) < STEEPEST


@pytest.mark.parametrize("name", SILENT)
def test_no_method_holds_more_than_twice_its_input_and_its_output(name):
    units = units_for(name, tokens=TIMES * TOKENS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held, credit = bytes_held(subject_of(name), units)
    given = bytes_read(units, get(name).reads)
    if get(name).kind == "transform":
        given += bytes_made(plain_credit(units))
    assert held <= 2 * given + bytes_made(credit)


# --- the checks can fail -------------------------------------------------------------------------------------------


def compares_all_with_all(units):
    near = np.abs(units.reward_S[:, None] - units.reward_S) < 0.1
    return Credit(near.sum(axis=1).astype(float), units)


def walks_back_from_every_step(units):
    return Credit(np.array([sum(units.reward_S[:s].tolist()) for s in range(len(units))]), units)


def keeps_copies_of_its_input(units):
    copies = [np.tile(units.unit_of_T, 12)]
    return Credit(np.zeros(len(units)) * len(copies), units)


@pytest.mark.parametrize("spoiled", [compares_all_with_all, walks_back_from_every_step])
def test_a_quadratic_method_is_found(spoiled):
    assert power(spoiled, units_for("gigpo"), units_for("gigpo", steps=TIMES * STEPS)) >= STEEPEST


@pytest.mark.parametrize("spoiled", [compares_all_with_all, keeps_copies_of_its_input])
def test_a_method_that_holds_too_much_is_found(spoiled):
    units = units_for("gigpo", tokens=TIMES * TOKENS)
    held, credit = bytes_held(spoiled, units)
    assert held > 2 * bytes_read(units, get("gigpo").reads) + bytes_made(credit)
