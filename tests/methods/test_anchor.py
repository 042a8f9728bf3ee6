import dataclasses
from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.methods.notes import size_histogram
from apportion.units import by_step, by_token
from tests.make import random_units, units_of
from tests.plain import plain, spread
from tests.tree import advantages, average, tree_units

# the mission's table: four trajectories that leave one anchor state with discounted returns .9, 0, 0, .9^4
TOY = {"group": [0] * 4, "lengths": [2, 1, 1, 5]}
TOY_STEPS = [("s", 0), ("won", 1), ("s", 0), ("s", 0), ("s", 0), ("a", 0), ("b", 0), ("c", 0), ("d", 1)]
AT_ANCHOR = [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("params", "want"),
    [
        ({"scale": "std", "ddof": 0}, [1.2823, -0.9763, -0.9763, 0.6703]),
        ({"scale": "std", "ddof": 1}, [1.1105, -0.8455, -0.8455, 0.5805]),
        ({"scale": "none"}, [0.510975, -0.389025, -0.389025, 0.267075]),
    ],
)
def test_worked_example(params, want):
    credit = assign("anchor", units_of(**TOY, steps=TOY_STEPS), gamma=0.9, **params)
    np.testing.assert_allclose(credit.advantage_S[AT_ANCHOR], want, atol=6e-5)
    others = np.delete(credit.advantage_S, AT_ANCHOR)
    assert others.tolist() == [0.0] * 5  # met once: nobody to be compared with


def test_notes_count_company_and_repeats():
    credit = assign("anchor", units_of([0, 0], [3, 1], [("s", 0), ("s", 0), ("x", 1), ("s", 0)]))
    assert credit.notes == {
        "states": 2,
        "state_sizes": "1:1 3-4:1",
        "units_without_company": 1,
        "share_with_company": 0.75,
        "own_repeats": 1,
    }


def test_the_histogram_of_state_sizes():
    assert size_histogram(np.array([1, 0, 1, 2, 3, 4, 5, 8, 9, 16, 17])) == "1:2 2:1 3-4:2 5-8:2 9-16:2 17-32:1"
    assert size_histogram(np.array([0])) == ""


def test_a_trajectory_that_is_stuck_votes_once():
    # twenty visits with return 0 and one with 1: the mean is 1/21 by visits, 1/2 by trajectories
    units = units_of([0, 0], [20, 1], [("s", 0)] * 20 + [("s", 1)])
    by_visits = assign("anchor", units)
    np.testing.assert_allclose(by_visits.advantage_S, [-1 / 21] * 20 + [20 / 21])
    assert by_visits.notes["own_repeats"] / len(units) == pytest.approx(0.904762, abs=1e-6)
    assert assign("anchor", units, repeats="once").advantage_S.tolist() == [-0.5] * 20 + [0.5]
    alone = units_of([0], [3], [("s", 0), ("s", 0), ("s", 1)])
    credit = assign("anchor", alone, repeats="once", gamma=0.5)
    assert credit.advantage_S.tolist() == [0, 0, 0]
    assert credit.notes["units_without_company"] == 3
    assert assign("anchor", alone, gamma=0.5).advantage_S.any()


def test_votes_by_hand():
    # returns in s: .5 and 1 by the first, 0 by the second; votes .75 and 0, mean .375, sample std .75/sqrt(2)
    units = units_of([0, 0], [2, 1], [("s", 0), ("s", 1), ("s", 0)])
    assert assign("anchor", units, gamma=0.5, repeats="once").advantage_S.tolist() == [0.125, 0.625, -0.375]
    level = units_of([0, 0], [3, 1], [("s", 0), ("s", 0), ("s", 0.1), ("s", 0.1)])
    assert (0.1 + 0.1 + 0.1) / 3 != 0.1  # rounding is no signal
    assert not assign("anchor", level, gamma=1.0, repeats="once").advantage_S.any()
    scaled = assign("anchor", units, gamma=0.5, repeats="once", scale="std", epsilon=0.25).advantage_S
    np.testing.assert_allclose(scaled, np.array([0.125, 0.625, -0.375]) / (0.75 / 2**0.5 + 0.25), rtol=1e-12)


def test_states_of_other_groups_are_other_states():
    # task 0 returns (1, 0), task 1 (1, 1), the same state: scoped +.5 -.5 0 0; pooled would be +.25 -.75 +.25 +.25
    units = units_of([0, 0, 1, 1], [1] * 4, [("h", 1), ("h", 0), ("h", 1), ("h", 1)])
    assert assign("anchor", units).advantage_S.tolist() == [0.5, -0.5, 0, 0]
    assert assign("anchor", units, scope="batch").advantage_S.tolist() == [0.25, -0.75, 0.25, 0.25]
    assert assign("gigpo", units, scope="batch").parts["step"].tolist() == [0.25, -0.75, 0.25, 0.25]


def test_against_the_others_it_is_the_plain_difference_times_n_over_n_minus_one():
    # the toy: +.6813 -.5187 -.5187 +.3561 against the three others
    units = units_of(**TOY, steps=TOY_STEPS)
    got = assign("anchor", units, gamma=0.9, baseline="others").advantage_S
    np.testing.assert_allclose(got[AT_ANCHOR], [0.6813, -0.5187, -0.5187, 0.3561], atol=5e-5)
    step = assign("gigpo", units, gamma=0.9, baseline="others").parts["step"]
    assert step.tolist() == got.tolist()


def invalid_second_step():
    """Rewards 0 0 10; the second action was not valid, which costs .1."""
    steps = [Step(ids=[1], state=s, reward=r) for s, r in (("a", 0.0), ("b", 0.0), ("c", 10.0))]
    steps[1] = dataclasses.replace(steps[1], rewards={"invalid": -0.1})
    other = [Step(ids=[1], state=s, reward=0.0) for s in "abc"]
    return by_step(Batch.from_trajectories([Trajectory(steps, group="g"), Trajectory(other, group="g")]))


def test_a_penalty_that_comes_after_discounting():
    # released code: returns 9.025, 9.5 - .1, 10 (a penalty inside the rewards would give 8.93, 9.4, 10)
    units = invalid_second_step()
    step = assign("anchor", units, undiscounted="invalid").advantage_S
    np.testing.assert_allclose(step[:3] - step[3:], [9.025, 9.4, 10])
    credit = assign("gigpo", units, undiscounted="invalid", votes="row")
    np.testing.assert_allclose(credit.parts["step"], step)
    episode = np.array([10, 9.9, 10, 0, 0, 0])  # the outcome of the row, too
    np.testing.assert_allclose(credit.parts["episode"], episode - episode.mean())
    by_trajectory = assign("gigpo", units, undiscounted="invalid")
    assert by_trajectory.parts["episode"].tolist() == [5, 5, 5, -5, -5, -5]
    with pytest.raises(DataError, match=r"anchor reads reward_parts:style, .* lack; give Step.rewards\['style'\]"):
        assign("anchor", units, undiscounted="style")
    with pytest.raises(DataError, match=r"gigpo reads reward_parts:style"):
        assign("gigpo", units, undiscounted="style")


def test_rewards_that_cancel_are_no_signal():
    # .184 - .184 is 0, the other sum is 0 up to rounding (5.6e-17), which a std would turn into -1 and 1
    rewards = [-1.551, 0.555, 0.1, -0.164, 0.0, 1.06]
    assert sum(rewards) != 0.0
    flat = [("s", 0.184), ("t", -0.184), ("s", rewards[0]), *((f"u{k}", r) for k, r in enumerate(rewards[1:]))]
    units = units_of([0, 0], [2, 6], flat)
    for name in ("anchor", "hgpo"):
        for how in ({"scale": "std"}, {"scale": "std", "ddof": 0}):
            assert assign(name, units, gamma=1.0, **how).advantage_S[[0, 2]].tolist() == [0, 0]
    assert assign("anchor", units, gamma=1.0, scale="std", repeats="once").advantage_S[[0, 2]].tolist() == [0, 0]


def slow_anchor(rollouts, gamma, scale, ddof, repeats="all", epsilon=0.0, baseline="members", scope="group", late=None):
    returns = [
        [sum(gamma ** (k - s) * r.rewards[k] for k in range(s, len(r.rewards))) for s in range(len(r.rewards))]
        for r in rollouts
    ]
    if late is not None:
        returns = [[x + y for x, y in zip(own, more, strict=True)] for own, more in zip(returns, late, strict=True)]
    for n, (r, own) in enumerate(zip(rollouts, returns, strict=True)):
        for s, state in enumerate(r.states):
            visits = {
                i: [returns[i][k] for k in range(len(other.states)) if other.states[k] == state]
                for i, other in enumerate(rollouts)
                if other.valid and (other.group == r.group or scope == "batch")
            }
            every = [x for visit in visits.values() for x in visit]
            votes = {i: sum(visit) / len(visit) for i, visit in visits.items() if visit}
            same = every if repeats == "all" else list(votes.values())
            if not r.valid or len(same) < 2 or not spread(every, 0):
                yield 0.0
                continue
            std = spread(same, ddof)
            mean = sum(same) / len(same)
            if baseline == "others":
                mean = (sum(same) - (own[s] if repeats == "all" else votes[n])) / (len(same) - 1)
            advantage = own[s] - mean
            yield advantage if scale == "none" else advantage / (std + epsilon) if std else 0.0


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False)
    rollouts = plain(units.batch)
    for mode in product([1.0, 0.9], ["none", "std"], [0, 1], ["all", "once"], [0.0, 1e-3]):
        params = dict(zip(("gamma", "scale", "ddof", "repeats", "epsilon"), mode, strict=True))
        got = assign("anchor", units, **params).advantage_S
        np.testing.assert_allclose(got, list(slow_anchor(rollouts, *mode)), atol=1e-9, err_msg=str(params))


@pytest.mark.parametrize("seed", range(50))
def test_the_parity_options_equal_the_slow_reference(seed):
    units = random_units(seed, forks=False, parts=True)
    rollouts = plain(units.batch)
    late = [[step.rewards.get("work", 0.0) for step in t.steps] for t in units.batch.trajectories]
    for gamma, repeats, baseline, scope, name in product(
        [1.0, 0.9], ["all", "once"], ["members", "others"], ["group", "batch"], ["", "work"]
    ):
        how = {"gamma": gamma, "repeats": repeats, "baseline": baseline, "scope": scope}
        want = list(slow_anchor(rollouts, scale="none", ddof=1, late=late if name else None, **how))
        for method in ("anchor", "gigpo"):
            credit = assign(method, units, undiscounted=name, **how)
            got = credit.parts.get("step", credit.advantage_S)
            np.testing.assert_allclose(got, want, atol=1e-9, err_msg=str((method, name, how)))


@pytest.mark.parametrize("seed", range(5))
def test_without_repeats_once_is_all(seed):
    units = random_units(seed, forks=False)
    states = np.empty(len(units), dtype=object)  # the start, where all meet, and states that nobody meets again
    states[:] = ["start" if first else str(s) for s, first in enumerate(np.append(1, np.diff(units.traj_of_S)))]
    units = dataclasses.replace(units, state_S=states)
    once = assign("anchor", units, repeats="once").advantage_S
    np.testing.assert_allclose(once, assign("anchor", units).advantage_S, atol=1e-12)
    assert once.any()


def test_with_one_state_and_one_step_each_it_is_dr_grpo():
    units = units_of([0, 0, 1, 1, 1], [1] * 5, [("s", r) for r in (1, 0, 3, 1, 2)])
    np.testing.assert_allclose(assign("anchor", units).advantage_S, assign("dr_grpo", units).advantage_S)


@pytest.mark.parametrize("gamma", [1.0, 0.8])
def test_its_mean_is_the_true_advantage_when_every_path_is_seen_once(gamma):
    units, moves = tree_units(gamma)
    got = average(assign("anchor", units, gamma=gamma).advantage_S, moves)
    assert got == pytest.approx(advantages(gamma), abs=1e-12)


def test_what_it_refuses():
    units = random_units(1, forks=False)
    with pytest.raises(ConfigError, match="anchor: scale is 'batch'; give 'none' or 'std'"):
        assign("anchor", units, scale="batch")
    with pytest.raises(ConfigError, match="anchor: repeats is 'first'; give 'all' or 'once'"):
        assign("anchor", units, repeats="first")
    with pytest.raises(ConfigError, match="anchor: baseline is 'mean'; give 'members' or 'others'"):
        assign("anchor", units, baseline="mean")
    with pytest.raises(ConfigError, match="anchor: scope is 'task'; give 'group' or 'batch'"):
        assign("anchor", units, scope="task")
    with pytest.raises(ConfigError, match="anchor: baseline='others' has no std; give scale='none', or baseline='mem"):
        assign("anchor", units, baseline="others", scale="std")
    with pytest.raises(
        DataError, match="anchor credits steps, the units are tokens; cut the batch with by_step or by_turn"
    ):
        assign("anchor", by_token(units.batch))
