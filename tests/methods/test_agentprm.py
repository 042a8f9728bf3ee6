"""AgentPRM's credit: by hand, against a plain loop, and what stands before the first step."""

import dataclasses
import math
from itertools import product

import numpy as np
import pytest

import apportion as ap
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from tests.make import random_units
from tests.plain import plain
from tests.tree import advantages, average, tree_units, value, whole_batch

M = (0.4, 0.5, 0.7)


def rollouts(outcomes=(1.0, 0.0), promises=M):
    return ap.by_step(
        Batch.from_trajectories(
            Trajectory(
                [Step(prompt_ids=[1], ids=[2], rewards={} if m is None else {"promise": m}) for m in promises],
                group="g",
                outcome=outcome,
            )
            for outcome in outcomes
        )
    )


def test_the_worked_numbers():
    """The specification's M; the group's mean outcome, ½, stands before the first step."""
    progress = ap.assign("agentprm", rollouts()).advantage_S
    np.testing.assert_allclose(progress, [-0.1, 0.1, 0.5, -0.1, 0.1, -0.5])
    promise = ap.assign("agentprm", rollouts(), credit="promise", outcome=False).advantage_S
    np.testing.assert_allclose(promise, M * 2)
    assert ap.assign("agentprm", rollouts(), outcome=False).advantage_S[2] == pytest.approx(0.2)


def test_progress_adds_up_to_what_the_outcome_has_beyond_the_groups_mean():
    credit = ap.assign("agentprm", rollouts(outcomes=(3.0, 1.0, 0.5)))
    total = np.bincount(credit.units.traj_of_S, weights=credit.advantage_S)
    np.testing.assert_allclose(total, np.array([3.0, 1.0, 0.5]) - 1.5)


def test_a_step_without_a_number_is_unknown_and_so_is_the_next():
    credit = ap.assign("agentprm", rollouts(promises=(0.4, None, 0.7)))
    np.testing.assert_array_equal(credit.known_S, [True, False, False] * 2)
    assert credit.notes["units_without_value"] == 4
    first = ap.assign("agentprm", rollouts(), first="unknown")
    np.testing.assert_array_equal(first.known_S, [False, True, True] * 2)


def test_the_number_may_stand_under_another_name():
    units = rollouts()
    named = ap.by_step(
        Batch.from_trajectories(
            Trajectory(
                [Step(prompt_ids=[1], ids=[2], rewards={"prm": s.rewards["promise"]}) for s in t.steps],
                group=t.group,
                outcome=t.outcome,
            )
            for t in units.batch
        )
    )
    want = ap.assign("agentprm", units).advantage_S
    np.testing.assert_array_equal(ap.assign("agentprm", named, part="prm").advantage_S, want)


def test_what_cannot_be_is_said():
    with pytest.raises(DataError, match="agentprm reads reward_parts, which the units"):
        ap.assign("agentprm", rollouts(promises=(None,)))
    with pytest.raises(ConfigError, match="credit is 'value'"):
        ap.assign("agentprm", rollouts(), credit="value")


def slow_reference(rollouts_of, batch, part, credit, first, outcome):
    """One rollout after the other, from the trajectories as they are given."""
    out = []
    for r, t in zip(rollouts_of, batch.trajectories, strict=True):
        numbers = [step.rewards.get(part, math.nan) for step in t.steps]
        if outcome and r.valid:
            numbers[-1] = r.outcome
        group = [x.outcome for x in rollouts_of if x.valid and x.group == r.group]
        before = sum(group) / len(group) if first == "group" and group else math.nan
        for number in numbers:
            got = number if credit == "promise" else number - before
            out.append(got if r.valid else math.nan)
            before = number
    return np.array(out)


@pytest.mark.parametrize("seed", range(20))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False, parts=True)
    how = product(["work", "format"], ["promise", "progress"], ["group", "unknown"], [False, True])
    for part, credit, first, outcome in how:
        got = ap.assign("agentprm", units, part=part, credit=credit, first=first, outcome=outcome)
        want = slow_reference(plain(units.batch), units.batch, part, credit, first, outcome)
        np.testing.assert_array_equal(got.known_S, np.isfinite(want))
        np.testing.assert_allclose(got.advantage_S[got.known_S], want[got.known_S], atol=1e-12)


def test_with_the_exact_promise_progress_has_the_mean_of_the_true_advantage():
    """What was earned so far and the value of where a step leads; the batch is the whole distribution."""
    units, moves = tree_units()
    earned, promise = 0.0, []
    for path in whole_batch():
        earned = 0.0
        for k, (_, _, reward) in enumerate(path):
            earned += reward
            promise.append(earned + value(path[k + 1][0] if k + 1 < len(path) else None, 1.0))
    units = dataclasses.replace(units, reward_parts={"promise": np.array(promise)})
    assert average(ap.assign("agentprm", units).advantage_S, moves) == pytest.approx(advantages(1.0), abs=1e-12)
