from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_step, by_token
from tests.make import random_units, units_of
from tests.plain import plain, spread
from tests.tree import advantages, average, tree_units

PUBLISHED = {"scale": "std", "epsilon": 1e-4}


def two_turns(*rewards):
    """One group; (turn reward, outcome reward) for each rollout."""
    flat = [("A", r) for pair in rewards for r in pair]
    return units_of([0] * len(rewards), [2] * len(rewards), flat)


def test_worked_example_of_the_released_code():
    # turn 1 0 1 0 and outcome 1 0 0 1: a z-score of +-.5 / (.57735 + 1e-4) each
    units = two_turns((1, 1), (0, 0), (1, 0), (0, 1))
    credit = assign("mt_grpo", units, form="code", **PUBLISHED)
    np.testing.assert_allclose(credit.advantage_S[::2], [1.731751, -1.731751, 0, 0], atol=5e-7)
    np.testing.assert_allclose(credit.advantage_S[1::2], [0.865875, -0.865875, -0.865875, 0.865875], atol=5e-7)
    np.testing.assert_allclose(credit.parts["turn"][::2], [0.865875, -0.865875, 0.865875, -0.865875], atol=5e-7)
    summed = assign("grpo", units, epsilon=1e-4).advantage_S
    np.testing.assert_allclose(summed[::2], [1.224595, -1.224595, 0, 0], atol=5e-7)
    other = assign("mt_grpo", units, form="paper", coef=0.5, **PUBLISHED)
    np.testing.assert_allclose(other.advantage_S[::2], 0.865875 * np.array([1.5, -1.5, 0.5, -0.5]), atol=1e-6)


def stop_or_go_on():
    """Two stop at the first turn with 1; two go on with .5 and then .5. Both choices are worth 1."""
    return units_of([0] * 4, [1, 1, 2, 2], [("A", 1), ("A", 1), ("A", 0.5), ("B", 0.5), ("A", 0.5), ("B", 0.5)])


def test_worked_example_of_the_bias():
    units = stop_or_go_on()
    assert assign("mt_grpo", units).advantage_S.tolist() == [0.0] * 6
    assert assign("mt_grpo", units, form="members").advantage_S.tolist() == [0.0] * 6
    biased = assign("mt_grpo", units, form="turn_index")
    np.testing.assert_allclose(biased.advantage_S[[0, 1, 2, 4]], [0.25, 0.25, -0.25, -0.25])
    assert biased.notes["groups_with_unequal_turns"] == 1
    assert "groups_with_unequal_turns" not in assign("mt_grpo", units).notes
    # a member that nobody scored does not make the counts of the others unequal
    even = [*two_turns((1, 1), (0, 0)).batch.trajectories, Trajectory([Step(ids=[1])], group="0")]
    uneven = assign("mt_grpo", by_step(Batch.from_trajectories(even)), form="turn_index")
    assert "groups_with_unequal_turns" not in uneven.notes


def test_all_returns_of_a_group_under_one_mean():
    # returns 2 1 | 0 0 | 1: mean 4/5
    units = units_of([0] * 3, [2, 2, 1], [("A", 1), ("B", 1), ("A", 0), ("B", 0), ("A", 1)])
    got = assign("mt_grpo", units, form="pooled").advantage_S
    np.testing.assert_allclose(got, [1.2, 0.2, -0.8, -0.8, 0.2])


def test_a_rollout_of_one_turn_is_compared_as_a_whole():
    # totals 2 1 0; turns 1 0 0 (none where no tool was called); outcomes 1 1 0
    units = units_of([0] * 3, [2, 1, 2], [("A", 1), ("B", 1), ("A", 1), ("A", 0), ("B", 0)])
    credit = assign("mt_grpo", units, form="code")
    # first: outcome 1 - 2/3, turn 1 - 1/3; second: total 1 - 1; third: outcome -2/3, turn -1/3
    np.testing.assert_allclose(credit.advantage_S, [1, 1 / 3, 0, -1, -2 / 3], atol=1e-12)
    assert credit.notes["groups_with_unequal_turns"] == 1


def slow_cell(x, others, form, scale, ddof, epsilon):
    """One value against the values of its cell, itself included in ``others``."""
    if len(others) < 2 or not spread(others, 0):
        return 0.0
    if form == "others":
        rest = list(others)
        rest.remove(x)
        std = spread(rest, ddof) if scale == "std" and len(rest) > max(ddof, 1) else 0.0
        return (x - sum(rest) / len(rest)) / (std + epsilon if std else 1.0)
    std = spread(others, ddof)
    centred = x - sum(others) / len(others)
    return centred if scale == "none" else centred / (std + epsilon) if std else 0.0


def slow_mt_grpo(rollouts, form, gamma, coef, scale, ddof, epsilon, group_of_one):
    def to_go(xs, k):
        # rounded, because rewards that cancel would leave a spread of rounding
        return round(sum(gamma ** (j - k) * xs[j] for j in range(k, len(xs))), 12)

    def cell(r, value):
        """Against the members of the group that have a value there."""
        found = [value(other) for other in rollouts if other.group == r.group and other.valid]
        found = [x for x in found if x is not None]
        if len(found) == 1 and group_of_one == "raw":
            return found[0] / (1.0 + epsilon if scale == "std" else 1.0)
        if len(found) == 1 and group_of_one == "trajectory":
            return slow_cell(r.outcome, [o.outcome for o in rollouts if o.group == r.group and o.valid], *how)
        return slow_cell(value(r), found, *how)

    how = (form, scale, ddof, epsilon)
    for r in rollouts:
        n = len(r.rewards)
        if not r.valid:
            yield from [0.0] * n
        elif form == "pooled":
            xs = [
                to_go(o.rewards, k) for o in rollouts if o.group == r.group and o.valid for k in range(len(o.rewards))
            ]
            for k in range(n):
                if len(xs) == 1 and group_of_one == "raw":
                    yield xs[0] / (1.0 + epsilon if scale == "std" else 1.0)
                else:
                    yield slow_cell(to_go(r.rewards, k), xs, *how)
        elif form in ("others", "members"):
            for k in range(n):
                yield cell(r, lambda o, k=k: to_go(o.rewards, k) if len(o.rewards) > k else None)
        elif form == "turn_index":
            own = [cell(r, lambda o, k=k: o.rewards[k] if len(o.rewards) > k else None) for k in range(n)]
            yield from [to_go(own, k) for k in range(n)]
        else:
            if n == 1:
                yield cell(r, lambda o: to_go(o.rewards, 0))
                continue
            turn = cell(r, lambda o: o.rewards[0] if len(o.rewards) > 1 else 0.0)
            outcome = cell(r, lambda o: to_go(o.rewards, 1) if len(o.rewards) > 1 else to_go(o.rewards, 0))
            yield outcome + coef * turn if form == "code" else turn + coef * outcome
            yield from [outcome] * (n - 1)


@pytest.mark.parametrize("form", ["others", "members", "turn_index", "code", "paper", "pooled"])
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, form):
    units = random_units(seed, forks=False)
    rollouts = plain(units.batch)
    for gamma, (scale, ddof, epsilon) in product([1.0, 0.9], [("none", 1, 0.0), ("std", 0, 0.0), ("std", 1, 0.1)]):
        group_of_one = ("zero", "raw", "trajectory")[seed % 3]
        if group_of_one == "trajectory" and form in ("code", "paper", "pooled"):
            group_of_one = "zero"
        how = {
            "gamma": gamma,
            "coef": 0.7,
            "scale": scale,
            "ddof": ddof,
            "epsilon": epsilon,
            "group_of_one": group_of_one,
        }
        want = list(slow_mt_grpo(rollouts, form, **how))
        np.testing.assert_allclose(assign("mt_grpo", units, form=form, **how).advantage_S, want, atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_with_one_turn_each_it_is_its_neighbour(seed):
    units = random_units(seed, steps=1)
    units = units.with_reward(units.reward_S)  # outcomes may be told apart from rewards; here they are their sums
    for form, neighbour in {"others": "rloo", "members": "dr_grpo", "code": "dr_grpo", "paper": "dr_grpo"}.items():
        want = assign(neighbour, units).advantage_S
        np.testing.assert_allclose(assign("mt_grpo", units, form=form).advantage_S, want, atol=1e-12)


def centred_per_state(got, moves):
    """What a softmax policy feels of a credit: in each state only differences between actions count."""
    share = {m: moves.count(m) / sum(s == m[0] for s, _ in moves) for m in set(moves)}
    mean = {s: sum(share[m] * got[m] for m in got if m[0] == s) for s, _ in moves}
    return {m: got[m] - mean[m[0]] for m in got}


def test_its_gradient_is_the_true_one_on_the_whole_tree():
    # the batch is the distribution; its paths have two or three turns, chosen by the first action
    units, moves = tree_units()
    truth = advantages(1.0)
    members = average(assign("mt_grpo", units, form="members").advantage_S, moves)
    assert centred_per_state(members, moves) == pytest.approx(truth, abs=1e-12)
    assert members["root", "L"] == pytest.approx(truth["root", "L"])
    others = average(assign("mt_grpo", units).advantage_S, moves)
    # without oneself the difference is n / (n - 1) times as large: six paths reach turns 0 and 1, one reaches turn 2
    size = {"root": 6 / 5, "left": 6 / 5, "right": 6 / 5, "deep": 0.0}
    assert centred_per_state(others, moves) == pytest.approx({m: size[m[0]] * truth[m] for m in truth}, abs=1e-12)


def test_centring_by_turn_index_is_not():
    # two that stop with 1 against two that go on: to stop looks better by .5 although all is equal
    got = assign("mt_grpo", stop_or_go_on(), form="turn_index").advantage_S
    assert got[0] - got[2] == pytest.approx(0.5)


def test_what_it_refuses():
    units = two_turns((1, 1), (0, 0))
    with pytest.raises(
        ConfigError, match="mt_grpo: form is 'turn'; give one of 'others', 'members', 'turn_index', 'co"
    ):
        assign("mt_grpo", units, form="turn")
    with pytest.raises(ConfigError, match="mt_grpo: scale is 'batch'"):
        assign("mt_grpo", units, scale="batch")
    with pytest.raises(ConfigError, match="mt_grpo: group_of_one is 'one'; give one of 'zero', 'raw', 'trajectory'"):
        assign("mt_grpo", units, group_of_one="one")
    with pytest.raises(
        DataError, match="mt_grpo credits turns, the units are tokens; cut the batch with by_turn or by_"
    ):
        assign("mt_grpo", by_token(units.batch))


def test_rewards_that_cancel_are_no_signal():
    # .184 - .184 is 0; the other sum is 0 up to rounding (5.6e-17), which a std would turn into -1 and 1
    rewards = [-1.551, 0.555, 0.1, -0.164, 0.0, 1.06]
    units = units_of([0, 0], [2, 6], [("A", r) for r in [0.184, -0.184, *rewards]])
    assert assign("mt_grpo", units, form="members", scale="std", ddof=0).advantage_S[[0, 2]].tolist() == [0, 0]
