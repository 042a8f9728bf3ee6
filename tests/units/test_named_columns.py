"""Named columns and parts: sums over each unit's tokens, and parts where the rewards go."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.units import CUTS, by_episode, by_step, by_token, by_turn
from tests.make import random_batch, random_units

OPTIONS = {"segment": {"by": "fixed", "count": 2}}


@pytest.mark.parametrize("level", list(CUTS))
@pytest.mark.parametrize("seed", range(10))
def test_equals_the_slow_reference(seed, level):
    batch = random_batch(seed, parts=True, columns=("a", "b"))
    units = CUTS[level](batch, **OPTIONS.get(level, {}))
    flat = {name: [] for name in ("a", "b")}
    for rollout in batch.trajectories:
        for step in rollout.steps:
            for name in flat:
                flat[name] += [0.0] * len(step.prompt_ids) + step.columns[name].tolist()
    for name, column_T in flat.items():
        want = [0.0] * len(units)
        for unit, value in zip(units.unit_of_T.tolist(), column_T, strict=True):
            want[unit] += value if unit >= 0 else 0.0
        np.testing.assert_allclose(units.columns[name], want, atol=1e-12)
    for name in ("correct", "länge"):
        want = [rollout.outcomes.get(name, math.nan) for rollout in batch.trajectories]
        np.testing.assert_array_equal(units.outcome_parts[name], want)


@pytest.mark.parametrize("cut", [by_step, by_turn, by_episode])
@pytest.mark.parametrize("seed", range(10))
def test_parts_go_where_the_rewards_go(seed, cut):
    batch = random_batch(seed, parts=True)
    units = cut(batch)
    steps = [step for rollout in batch.trajectories for step in rollout.steps]
    unit_of_step = {by_step: list(range(len(steps))), by_episode: batch.traj_of_S.tolist()}.get(cut)
    if unit_of_step is None:  # turns: a new one where the trajectory or the turn changes
        keys = list(zip(batch.traj_of_S.tolist(), batch.turn_S.tolist(), strict=True))
        unit_of_step = [sum(a != b for a, b in itertools.pairwise(keys[: s + 1])) for s in range(len(keys))]
    for name in ("format", "work"):
        want = [math.nan] * len(units)
        for step, unit in zip(steps, unit_of_step, strict=True):
            if name in step.rewards:
                want[unit] = step.rewards[name] + (0.0 if math.isnan(want[unit]) else want[unit])
        np.testing.assert_allclose(units.reward_parts[name], want)


def test_by_token_a_part_arrives_with_the_last_token_of_its_step():
    steps = [Step(ids=[1, 2], rewards={"a": 0.5}), Step(ids=[3, 4])]
    units = by_token(Batch.from_trajectories([Trajectory(steps)]))
    np.testing.assert_array_equal(units.reward_parts["a"], [np.nan, 0.5, np.nan, np.nan])


def test_what_a_method_requires_and_the_units_lack():
    bare = by_step(Batch.from_trajectories([Trajectory([Step(ids=[1])], outcome=1.0)]))
    for column, sentence in {
        "column:prm_logp": r"^m reads column:prm_logp, which the units \(cut by step\) lack; give Step.columns"
        r"\['prm_logp'\], one number for every sampled token$",
        "reward_parts": r"^m reads reward_parts, .* lack; named parts of the rewards: give Step.rewards$",
        "outcome_parts": r"^m reads outcome_parts, .* lack; named parts of the outcomes: give Trajectory.outcomes$",
        "reward_parts:work": r"^m reads reward_parts:work, .* lack; give Step.rewards\['work'\]$",
        "outcome_parts:länge": r"^m reads outcome_parts:länge, .* lack; give Trajectory.outcomes\['länge'\]$",
        "column:": r"^m: no unit column is named 'column:'; there are .* and column:NAME$",
    }.items():
        with pytest.raises(DataError, match=sentence):
            bare.require("m", column)
    full = random_units(0, parts=True, columns=("prm_logp",))
    full.require("m", "column:prm_logp", "reward_parts", "outcome_parts", "reward_parts:work", "outcome_parts:länge")


def test_named_columns_are_checked():
    units = random_units(0, parts=True, columns=("a",))
    with pytest.raises(DataError, match=r"units\.columns\.a has 1 entries, expected \d+; one per S"):
        dataclasses.replace(units, columns={"a": np.zeros(1)})
    with pytest.raises(DataError, match=r"units\.columns\.a is nan at 0; give finite numbers"):
        dataclasses.replace(units, columns={"a": np.full(len(units), np.nan)})
    with pytest.raises(DataError, match=r"units\.outcome_parts\.a is inf at 0; give finite numbers"):
        dataclasses.replace(units, outcome_parts={"a": np.full(len(units.group_of_N), np.inf)})
