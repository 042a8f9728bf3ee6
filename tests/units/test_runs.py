"""Runs of tokens: what they say must be what the tokens say, and units keep them only where they are long."""

import copy
import dataclasses
import itertools

import numpy as np
import pytest

from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.units import by_episode, by_step, by_token
from apportion.units.runs import Runs, runs_of


def slow(unit_of_T):
    at, out = 0, []
    for unit, group in itertools.groupby(unit_of_T.tolist()):
        size = len(list(group))
        out.append((at, size, unit))
        at += size
    return out


def slow_interrupted(unit_of_T):
    before = -1
    for unit in unit_of_T.tolist():
        if unit >= 0:
            if unit < before:
                return unit
            before = unit
    return -1


def as_list(runs):
    return list(zip(runs.start_R.tolist(), runs.size_R.tolist(), runs.unit_R.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_runs_and_interruptions_equal_a_walk_over_the_tokens(seed):
    rng = np.random.default_rng(seed)
    unit_of_T = np.repeat(rng.integers(-1, 4, size=seed), rng.integers(1, 5, size=seed))
    if seed % 3 == 0:
        unit_of_T = np.where(unit_of_T < 0, -1, np.sort(unit_of_T))
    runs = runs_of(unit_of_T)
    assert as_list(runs) == slow(unit_of_T)
    assert runs.first_interrupted() == slow_interrupted(unit_of_T)


def test_runs_compare_by_content():
    runs = runs_of(np.array([0, 0, 1]))
    assert runs == runs_of(np.array([0, 0, 1]))
    assert runs != runs_of(np.array([0, 1, 1]))
    assert runs != runs_of(np.array([0, 0, 2]))
    assert runs != Runs(runs.start_R, runs.size_R + 1, runs.unit_R)
    assert runs != "runs"


def rollouts(tokens=12):
    def step(reward):
        return Step(ids=list(range(tokens)), prompt_ids=list(range(tokens)), reward=reward)

    return Batch.from_trajectories([Trajectory([step(0.0), step(1.0)], group="a") for _ in range(3)])


def test_long_runs_are_kept_and_short_ones_are_not():
    batch = rollouts()
    assert by_step(batch).runs == runs_of(by_step(batch).unit_of_T)
    assert by_token(batch).runs is None
    assert by_step(rollouts(tokens=3)).runs is None
    assert by_step(rollouts(tokens=4)).runs is not None


@pytest.mark.parametrize("cut", [by_step, by_episode, by_token])
def test_tokens_are_the_same_with_and_without_runs(cut):
    units = cut(rollouts())
    rng = np.random.default_rng(0)
    credit = Credit(rng.normal(size=len(units)), units, train_S=rng.random(len(units)) < 0.6)
    bare = copy.copy(units)
    object.__setattr__(bare, "runs", None)
    other = dataclasses.replace(credit)
    object.__setattr__(other, "units", bare)
    for spread in ("copy", "divide", "last"):
        with_runs, without = credit.to_tokens(spread), other.to_tokens(spread)
        assert with_runs.advantage_T.tolist() == without.advantage_T.tolist()
        assert with_runs.weight_T.tolist() == without.weight_T.tolist()
        assert with_runs.weight_T.sum() == units.tokens_S[credit.weight_S].sum()


def test_units_of_another_cut_get_runs_of_their_own():
    units = by_step(rollouts())
    joined = np.where(units.unit_of_T >= 0, units.unit_of_T // 2 * 2, -1)
    changed = dataclasses.replace(units, unit_of_T=joined)
    assert changed.runs == runs_of(joined)
    assert changed.interrupted == -1
    swapped = units.unit_of_T.copy()
    own = np.flatnonzero(swapped >= 0)
    swapped[own[:12]], swapped[own[12:24]] = 1, 0
    assert dataclasses.replace(units, unit_of_T=swapped).first_interrupted() == 0


@pytest.mark.parametrize(("unit", "token"), [(0, 9), (1, 0)])
def test_a_run_that_reaches_into_another_trajectory_is_found_where_it_does(unit, token):
    batch = Batch.from_trajectories([Trajectory([Step(ids=[1] * 9, reward=1.0)]) for _ in range(2)])
    with pytest.raises(DataError, match=f"gives token {token} to unit {unit} of another trajectory"):
        dataclasses.replace(by_step(batch), unit_of_T=np.full(18, unit))


def test_weights_are_written_when_they_are_asked_for():
    units = by_step(rollouts())
    credit = Credit(np.arange(6.0), units, train_S=np.arange(6) != 2)
    want = np.where(units.unit_of_T >= 0, units.unit_of_T != 2, False).astype(float).tolist()

    def written(tokens):
        return type(tokens).__dict__["weight_T"]

    tokens = credit.to_tokens()
    with pytest.raises(AttributeError):
        written(tokens).__get__(tokens)
    assert tokens.weight_T.tolist() == want
    assert tokens.weight_T is tokens.weight_T
    assert not tokens.weight_T.flags.writeable
    assert copy.deepcopy(credit.to_tokens()).weight_T.tolist() == want
    assert dataclasses.replace(credit.to_tokens()).weight_T.tolist() == want
    with pytest.raises(AttributeError, match="'TokenAdvantages' object has no attribute 'weights'"):
        tokens.weights  # noqa: B018


def test_single_tokens_leave_the_weights():
    units = by_step(rollouts())
    train_T = np.arange(len(units.unit_of_T)) % 2 == 0
    tokens = Credit(np.ones(6), units, train_T=train_T).to_tokens()
    assert tokens.weight_T.tolist() == ((units.unit_of_T >= 0) & train_T).astype(float).tolist()
