import dataclasses
import math
from itertools import product

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.units import by_episode, by_segment, by_step, by_token, by_turn, process_rewards, verdicts
from tests.make import random_units
from tests.tree import average, q, tree_units


def rollout(*steps, outcome=None, group="g"):
    """(tokens, process reward) for each step."""
    return Trajectory([Step(prompt_ids=[0], ids=[1] * k, reward=r) for k, r in steps], outcome=outcome, group=group)


def batch_of(*rollouts):
    return Batch.from_trajectories(rollouts)


PAIR = (rollout((2, -0.1), (2, -0.5), outcome=0.0), rollout((3, 0.6), outcome=1.0))


def test_worked_example_of_the_advantage():
    # N = 8; r* as they stand. To go: -.6 -.6 -.5 -.5 | .6 .6 .6. Bases: 1.8/8 for the first, -2.2/8 for the second
    want = [-1.825] * 2 + [-1.725] * 2 + [1.875] * 3
    tokens = assign("pure", by_token(batch_of(*PAIR)), form="sum", max_tokens=8)
    np.testing.assert_allclose(tokens.advantage_S, want, atol=1e-12)
    steps = assign("pure", by_step(batch_of(*PAIR)), form="sum", max_tokens=8)
    np.testing.assert_allclose(steps.advantage_S, [-1.825, -1.725, 1.875], atol=1e-12)
    assert steps.parts["outcome"].tolist() == [-1, -1, 1]


def test_the_released_verl_branch():
    # verdicts inside the base: 3 · 1.6 / 8 = .6 for the first
    got = assign("pure", by_token(batch_of(*PAIR)), form="sum", max_tokens=8, baseline="pooled").advantage_S
    np.testing.assert_allclose(got[:4], [-1.2, -1.2, -1.1, -1.1], atol=1e-12)


def test_worked_example_of_the_min_form():
    steps = [(1, r) for r in (0.9, 0.8, -0.6, 0.5)]
    for temperature, want in (
        (1.0, [-0.019677, -0.131081, -0.240522, 0.092331]),
        (0.1, [-0.599980, -0.599980, -0.599981, 0.000008]),
    ):
        got = assign("pure", by_step(batch_of(rollout(*steps))), temperature=temperature).advantage_S
        np.testing.assert_allclose(got, want, atol=1e-6)
    for form, want in (("strict", [-0.6, -0.6, -0.6, 0]), ("sum", [1.6, 0.7, -0.1, 0.5])):
        got = assign("pure", by_step(batch_of(rollout(*steps))), form=form).advantage_S
        np.testing.assert_allclose(got, want, atol=1e-12)


def test_steps_that_nobody_scored_do_not_compete():
    # .9, nothing, .5: the smallest is .5, not 0
    units = by_step(batch_of(rollout((1, 0.9), (1, None), (1, 0.5))))
    assert assign("pure", units, form="strict").advantage_S.tolist() == [0.5, 0.5, 0.5]
    assert assign("pure", units).notes["scored_units"] == 2


def test_an_outcome_alone_is_a_verdict_and_no_process_reward():
    units = by_step(batch_of(rollout((1, None), (1, None), outcome=1.0), rollout((1, None), outcome=0.0)))
    credit = assign("pure", units)
    assert credit.advantage_S.tolist() == [1, 1, -1]
    assert not credit.parts["process"].any()
    assert assign("pure", units, outcome_weight=0.5).advantage_S.tolist() == [0.5, 0.5, -0.5]


def test_the_sum_of_rewards_is_no_verdict():
    credit = assign("pure", by_step(batch_of(rollout((1, 0.5)), rollout((1, 0.25)))), baseline="none")
    assert not credit.parts["outcome"].any()
    assert credit.notes["without_verdict"] == 2


def test_process_rewards_under_a_name():
    def named(part, reward):
        return Step(prompt_ids=[0], ids=[1], reward=reward, rewards={} if part is None else {"prm": part})

    batch = batch_of(
        Trajectory([named(0.9, None), named(None, None), named(0.5, 1.0)], group="g"),
        Trajectory([named(0.2, 0.0)], group="g"),
    )
    credit = assign("pure", by_step(batch), form="strict", process="prm", baseline="none")
    assert credit.parts["process"].tolist() == [0.5, 0.5, 0.5, 0.2]
    assert credit.parts["outcome"].tolist() == [1, 1, 1, -1]
    with pytest.raises(DataError, match=r"no step has a reward part named 'orm'; give Step.rewards\['orm'\] where"):
        assign("pure", by_step(batch), process="orm")


def test_a_group_of_one_has_no_baseline():
    credit = assign("pure", by_step(batch_of(*PAIR[:1], rollout((1, 0.5), outcome=1.0, group="h"))), form="sum")
    assert credit.advantage_S.tolist() == [-0.6, -0.5, 0.5]
    assert credit.notes["groups_of_one"] == 2


def test_the_baseline_by_step_pays_for_short_answers():
    # everybody's process reward is .3: two steps keep nothing, and eq. 8 takes b for each step
    pair = [rollout((1, 0.3), (1, 0.3)), rollout(*[(1, 0.3)] * 5)]
    credit = assign("pure", by_step(batch_of(*pair)), form="sum", baseline="step")
    np.testing.assert_allclose(credit.advantage_S, 0, atol=1e-12)
    plain = assign("pure", by_step(batch_of(*pair)), form="sum", baseline="none").advantage_S
    np.testing.assert_allclose(plain[[0, 2]], [0.6, 1.5])


def test_the_baselines_of_the_main_branch():
    # others: r* .4 and .2 on 3 + 1 tokens, and .9 on 2. Per token 1.5 / 6 = .25; mean of means (.3 + .9) / 2 = .6
    group = [rollout((2, 1.0), (1, 0.5)), rollout((3, 0.4), (1, 0.2)), rollout((2, 0.9))]
    units = by_step(batch_of(*group))
    token = assign("pure", units, form="sum", baseline="token").advantage_S
    np.testing.assert_allclose(token[:2], [(1.0 - 0.5) + (0.5 - 0.25), 0.5 - 0.25], atol=1e-12)
    means = assign("pure", units, form="sum", baseline="step_means").advantage_S
    np.testing.assert_allclose(means[:2], [(1.0 - 0.6) + (0.5 - 0.6), 0.5 - 0.6], atol=1e-12)
    each = assign("pure", units, form="sum", baseline="step").advantage_S  # three scored steps: 1.5 / 3
    np.testing.assert_allclose(each[:2], [0.5 + 0.0, 0.0], atol=1e-12)


# --- slow reference -------------------------------------------------------------------------------------------------


def slow_pure(trajectories, valid, temperature, form, weight, baseline, max_tokens):
    """Token by token, as equation 7 says; lists of credits per step."""

    def stars(t):
        told = [s.reward for s in t.steps if s.reward is not None]
        out = []
        for s in t.steps:
            if s.reward is None:
                out.append(0.0)
            elif form == "sum":
                out.append(s.reward)
            elif form == "strict":
                out.append(s.reward / told.count(min(told)) if s.reward == min(told) else 0.0)
            else:
                out.append(s.reward / sum(math.exp((s.reward - r) / temperature) for r in told))
        return out

    star = [stars(t) for t in trajectories]
    out = []
    for i, t in enumerate(trajectories):
        if not valid[i]:
            out.append([0.0] * len(t.steps))
            continue
        group = [k for k, other in enumerate(trajectories) if other.group == t.group and valid[k]]
        others = [k for k in group if k != i]
        longest = max(sum(len(s.ids) for s in trajectories[k].steps) for k in group)
        full = longest if max_tokens is None else max_tokens
        verdict = [weight * x.outcome if x.outcome is not None else None for x in trajectories]

        def area(k, extra=0.0):
            dense = []  # one return to go per token
            for s, step in enumerate(trajectories[k].steps):
                dense += [sum(star[k][s:]) + extra] * len(step.ids)
            return sum(dense)

        mine = star[i]
        if baseline == "step" and others:
            scored = [
                a for k in others for a, s in zip(star[k], trajectories[k].steps, strict=True) if s.reward is not None
            ]
            b = sum(scored) / len(scored) if scored else 0.0
            mine = [a - b if s.reward is not None else 0.0 for a, s in zip(mine, t.steps, strict=True)]
        if baseline == "step_means" and others:
            means = []
            for k in others:
                own = [a for a, s in zip(star[k], trajectories[k].steps, strict=True) if s.reward is not None]
                means += [sum(own) / len(own)] if own else []
            b = sum(means) / len(means) if means else 0.0
            mine = [a - b if s.reward is not None else 0.0 for a, s in zip(mine, t.steps, strict=True)]
        if baseline == "token" and others:
            length = sum(len(s.ids) for k in others for s in trajectories[k].steps)
            b = sum(sum(star[k]) for k in others) / length
            mine = [a - b * len(s.ids) if s.reward is not None else 0.0 for a, s in zip(mine, t.steps, strict=True)]
        base = 0.0
        if baseline == "length" and others:
            base = sum(area(k) for k in others) / len(others) / full
        if baseline == "pooled" and others:
            base = sum(area(k, verdict[k] or 0.0) for k in others) / len(others) / full
        told = [verdict[k] for k in others if verdict[k] is not None]
        if verdict[i] is None:
            outcome = 0.0
        elif baseline == "pooled":
            outcome = verdict[i]
        else:
            outcome = verdict[i] - sum(told) / len(told) if told else 0.0
        out.append([outcome + sum(mine[s:]) - base for s in range(len(t.steps))])
    return out


MODES = list(
    product(
        [0.1, 2.0],
        ["soft", "strict", "sum"],
        [1.0, 0.5],
        ["length", "pooled", "step", "step_means", "token", "none"],
        [None, 100],
    )
)
NAMES = ("temperature", "form", "outcome_weight", "baseline", "max_tokens")


@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed):
    units = random_units(seed, forks=False)
    for mode in MODES[seed % 32 :: 32]:
        params = dict(zip(NAMES, mode, strict=True))
        want = [a for row in slow_pure(units.batch.trajectories, units.valid_N.tolist(), *mode) for a in row]
        got = assign("pure", units, **params).advantage_S
        np.testing.assert_allclose(got, want, atol=1e-9, err_msg=str(params))


@pytest.mark.parametrize("seed", range(5))
def test_tokens_get_what_their_step_gets(seed):
    # where every step has tokens: a step's reward arrives with its last token
    units = random_units(seed, forks=False, rich=False)
    for baseline in ("length", "pooled", "none"):
        steps = assign("pure", units, baseline=baseline).to_tokens()
        for cut in (by_token, lambda batch: by_segment(batch, "fixed", count=2)):
            finer = assign("pure", cut(units.batch), baseline=baseline).to_tokens()
            np.testing.assert_allclose(finer.advantage_T, steps.advantage_T, atol=1e-9)


def slow_grid(units, weight, baseline, width):
    """The released branch, row by padded row: a running minimum from the right over rewards, verdict and zeros."""
    rows, real = [], []
    for t in units.batch.trajectories:
        row, size = [], sum(len(s.ids) for s in t.steps)
        for step in t.steps:
            row += [0.0] * (len(step.ids) - 1) + [step.reward or 0.0]
        if t.outcome is not None:
            row[-1] += weight * t.outcome
        row += [0.0] * (width - size)
        for k in range(width - 2, -1, -1):
            row[k] = min(row[k], row[k + 1])
        rows.append(row[:size])
        real.append(size)
    out = []
    for i, t in enumerate(units.batch.trajectories):
        others = [
            k
            for k, other in enumerate(units.batch.trajectories)
            if k != i and other.group == t.group and units.valid_N[k]
        ]
        base = sum(sum(rows[k]) for k in others) / len(others) / width if others and baseline != "none" else 0.0
        out += [x - base if units.valid_N[i] else 0.0 for x in rows[i]]
    return out


@pytest.mark.parametrize("baseline", ["length", "pooled", "none"])
@pytest.mark.parametrize("seed", range(20))
def test_the_grid_form_equals_a_scan_of_padded_rows(seed, baseline):
    units = by_token(random_units(seed, forks=False, rich=False).batch)
    longest = int(np.bincount(units.traj_of_S).max())
    for width in (longest, longest + 3):
        for weight in (1.0, -0.5):
            credit = assign("pure", units, form="grid_min", outcome_weight=weight, baseline=baseline, max_tokens=width)
            np.testing.assert_allclose(credit.advantage_S, slow_grid(units, weight, baseline, width), atol=1e-9)
            assert not credit.parts["outcome"].any()


@pytest.mark.parametrize("seed", range(5))
def test_on_coarser_units_the_grid_form_is_that_of_the_first_token(seed):
    steps = random_units(seed, forks=False, rich=False)
    finer = assign("pure", by_token(steps.batch), form="grid_min", baseline="none").advantage_S
    first = np.unique(steps.unit_of_T[steps.unit_of_T >= 0], return_index=True)[1]
    got = assign("pure", steps, form="grid_min", baseline="none").advantage_S
    np.testing.assert_allclose(got, finer[first], atol=1e-12)


def test_good_steps_are_worth_nothing_on_the_grid():
    # what the released branch makes of it: 0 .9 0 .8 0 .5 gives 0 but at the last token, and 0 there too behind padding
    batch = batch_of(rollout((2, 0.9), (2, 0.8), (2, 0.5)))
    for width, last in ((6, 0.5), (7, 0.0)):
        got = assign("pure", by_token(batch), form="grid_min", max_tokens=width).advantage_S
        assert got.tolist() == [0, 0, 0, 0, 0, last]
    assert assign("pure", by_token(batch), form="strict").advantage_S.tolist() == [0.5] * 6


def test_an_action_without_tokens_holds_no_place_on_the_grid():
    # its reward counts, but it fills no token: of the two tokens of the other step the first holds a 0
    batch = batch_of(
        Trajectory([Step(prompt_ids=[0], ids=[], reward=0.3), Step(prompt_ids=[0], ids=[1, 2], reward=0.7)])
    )
    assert assign("pure", by_step(batch), form="grid_min", max_tokens=2).advantage_S.tolist() == [0, 0]
    batch = batch_of(Trajectory([Step(prompt_ids=[0], ids=[], reward=-0.3), Step(prompt_ids=[0], ids=[1], reward=0.7)]))
    assert assign("pure", by_step(batch), form="grid_min", max_tokens=1).advantage_S.tolist() == [-0.3, 0.7]


def test_rollouts_that_take_no_part_are_not_counted():
    failed = Trajectory([Step(prompt_ids=[0], ids=[1], reward=0.5, failed=True)], group="g")
    units = by_step(batch_of(*PAIR, failed))
    assert not units.valid_N[2]
    notes = assign("pure", units).notes
    assert notes["scored_units"] == 3
    assert notes.get("without_verdict", 0) == 0


# --- relations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_sum_form_without_baseline_is_reinforce_on_process_rewards(seed):
    units = random_units(seed, forks=False)
    bare = [dataclasses.replace(t, outcome=None) for t in units.batch.trajectories]
    units = by_step(Batch.from_trajectories(bare))
    got = assign("pure", units, form="sum", baseline="none").advantage_S
    np.testing.assert_allclose(got, assign("reinforce", units).advantage_S, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_a_high_temperature_sums_to_the_mean_and_a_low_one_is_strict(seed):
    units = random_units(seed, forks=False)
    hot = assign("pure", units, temperature=1e9, baseline="none").parts["process"]
    cold = assign("pure", units, temperature=1e-7, baseline="none").parts["process"]
    strict = assign("pure", units, form="strict", baseline="none").parts["process"]
    np.testing.assert_allclose(cold, strict, atol=1e-9)
    for n, t in enumerate(units.batch.trajectories):
        told = [s.reward for s in t.steps if s.reward is not None]
        if units.valid_N[n] and told:
            first = int(np.flatnonzero(units.traj_of_S == n)[0])
            assert hot[first] == pytest.approx(sum(told) / len(told), abs=1e-6)
            assert strict[first] == pytest.approx(min(told))


@pytest.mark.parametrize("seed", range(5))
def test_without_process_rewards_it_is_rloo(seed):
    units = random_units(seed, forks=False)
    bare = [
        dataclasses.replace(t, steps=[dataclasses.replace(s, reward=None) for s in t.steps], outcome=t.total)
        for t in units.batch.trajectories
    ]
    units = by_step(Batch.from_trajectories(bare))
    np.testing.assert_allclose(assign("pure", units).advantage_S, assign("rloo", units).advantage_S, atol=1e-12)


def test_the_sum_form_means_q_on_the_whole_tree():
    # the min form estimates no expected return, so only the sum form has an exact truth: the mean return to go is Q
    units, moves = tree_units()
    got = average(assign("pure", units, form="sum", baseline="none").advantage_S, moves)
    assert got == pytest.approx({(s, a): q(s, a, 1.0) for s, a in got}, abs=1e-12)


# --- the columns behind it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [by_step, by_turn, by_episode])
@pytest.mark.parametrize("seed", range(20))
def test_process_rewards_are_the_told_rewards_of_a_units_steps(cut, seed):
    units = cut(random_units(seed, forks=False).batch)
    steps = [s for t in units.batch.trajectories for s in t.steps]
    unit_of_step = np.searchsorted(units.step_of_S, np.arange(len(steps)), side="right") - 1
    want = []
    for s in range(len(units)):
        told = [steps[k].reward for k in np.flatnonzero(unit_of_step == s) if steps[k].reward is not None]
        want.append(sum(told) if told else np.nan)
    np.testing.assert_allclose(process_rewards(units), want, atol=1e-12)


def test_rewards_that_were_put_in_count_as_told():
    units = by_step(batch_of(*PAIR))
    other = units.with_reward(np.array([0.0, 0.25, 0.5]))
    assert process_rewards(other).tolist() == [0.0, 0.25, 0.5]
    assert verdicts(units).tolist() == [True, True]
    assert verdicts(other).tolist() == [False, False]


def test_what_it_refuses():
    units = by_step(batch_of(*PAIR))
    with pytest.raises(ConfigError, match="pure: temperature is 0; give a number above 0, or form='strict'"):
        assign("pure", units, temperature=0)
    with pytest.raises(
        ConfigError, match="pure: baseline is 'group'; give one of 'length', 'pooled', 'step', 'step_means', "
    ):
        assign("pure", units, baseline="group")
    with pytest.raises(ConfigError, match="pure: max_tokens is 3, and a rollout has 4; give the limit it was under"):
        assign("pure", units, max_tokens=3)
    with pytest.raises(ConfigError, match="pure: form is 'min'; give one of 'soft', 'strict', 'sum', 'grid_min'"):
        assign("pure", units, form="min")
    with pytest.raises(ConfigError, match="pure: form='grid_min' has no rewards of single steps for baseline='step'"):
        assign("pure", units, form="grid_min", baseline="step")


def test_the_part_of_a_fitted_model_is_read_where_it_is_there_and_another_where_it_is_named():
    steps = [
        [Step(prompt_ids=[1], ids=[2], reward=0.0, rewards={"prm": r, "other": -r}) for r in row]
        for row in ([0.9, -0.5], [0.2, 0.4])
    ]
    batch = Batch.from_trajectories(Trajectory(row, group="g", outcome=float(n)) for n, row in enumerate(steps))
    units = by_step(batch)
    got = assign("pure", units)
    np.testing.assert_array_equal(got.advantage_S, assign("pure", units, process="prm").advantage_S)
    assert not np.allclose(got.advantage_S, assign("pure", units, process="other").advantage_S)
    bare = Batch.from_trajectories(
        Trajectory([Step(prompt_ids=[1], ids=[2], reward=s.rewards["prm"]) for s in row], group="g", outcome=float(n))
        for n, row in enumerate(steps)
    )
    np.testing.assert_allclose(got.advantage_S, assign("pure", by_step(bare)).advantage_S, atol=1e-12)
