"""Rows to a batch and back: whatever a host does to its rows, the numbers are those of `assign` on the rollouts."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion as ap
from apportion.adapters.crediting import Crediting
from apportion.adapters.rows import HostRow, batch_of, onto_rows, per_row
from apportion.errors import DataError
from tests.adapters.hosts.drawn import rollout, worlds

METHODS = {"gigpo": {"gamma": 0.9}, "grpo": {}, "tempo": {}, "mt_grpo": {}}


def numbers(method, rows, among=None):
    crediting = Crediting(method, params=METHODS[method])
    tokens = crediting.credit(batch_of(rows if among is None else among)).to_tokens()
    return [(row.id, row.index, *pair) for row, pair in zip(rows, per_row(tokens, rows, among), strict=True)]


def by_name(numbered):
    return {(name, index): (advantage, weight) for name, index, advantage, weight in numbered}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for key in one:
        np.testing.assert_allclose(one[key], other[key], atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25)
@given(world=worlds())
def test_rows_have_the_numbers_of_their_rollouts(method, world):
    rows, batch = world
    params = METHODS[method]
    credit = ap.assign(method, getattr(ap, f"by_{ap.describe(method).unit}")(batch), **params)
    of = {t.id: part for t, part in zip(batch.trajectories, credit.to_tokens().split(), strict=True)}
    done = dict.fromkeys(of, 0)
    for row, (name, _, advantage, weight) in zip(rows, numbers(method, rows), strict=True):
        own = np.flatnonzero(row.mask)
        part, first = of[name], done[name]
        done[name] += len(own)
        np.testing.assert_allclose(advantage[own], part.advantage[part.sampled][first : done[name]], atol=1e-12)
        np.testing.assert_array_equal(weight[own], part.weight[part.sampled][first : done[name]])
        assert not advantage[np.array(row.mask) == 0].any()
        assert not weight[np.array(row.mask) == 0].any()


@settings(max_examples=30)
@given(world=worlds(), data=st.data())
def test_the_batch_is_the_rollouts(world, data):
    rows, batch = world
    made = batch_of(rows)
    for one, other in zip(made.trajectories, batch.trajectories, strict=True):
        assert [(s.prompt_ids.tolist(), s.ids.tolist(), s.fresh, s.reward, s.state) for s in one.steps] == [
            (s.prompt_ids.tolist(), s.ids.tolist(), s.fresh, s.reward, s.state) for s in other.steps
        ]
    assert made.fingerprint() == batch.fingerprint()


@settings(max_examples=30)
@given(world=worlds(), data=st.data(), method=st.sampled_from(sorted(METHODS)))
def test_order_copies_and_shards_change_nothing(world, data, method):
    rows, _ = world
    plain = by_name(numbers(method, rows))
    # a host reorders, and fills up with copies of rows
    copies = data.draw(st.lists(st.sampled_from(rows), max_size=4))
    mixed = data.draw(st.permutations([*rows, *copies]))
    assert_same(by_name(numbers(method, mixed)), plain)
    # shards, in any order, each asking for its own rows; and micro-batches of them
    cut = data.draw(st.integers(0, len(mixed)))
    for shard in (mixed[:cut], mixed[cut:]):
        assert all(key in plain for key in by_name(numbers(method, shard, among=mixed)))
        for micro in (shard[::2], shard[1::2]):
            got = by_name(numbers(method, micro, among=mixed))
            assert_same(got, {key: plain[key] for key in got})


@settings(max_examples=30)
@given(world=worlds(), wider=st.integers(0, 5), method=st.sampled_from(sorted(METHODS)))
def test_width_changes_nothing(world, wider, method):
    rows, _ = world
    tokens = Crediting(method, params=METHODS[method]).credit(batch_of(rows)).to_tokens()
    width = max(len(row.completion_ids) for row in rows) + wider
    advantage, weight = onto_rows(tokens, rows, width)
    assert advantage.shape == weight.shape == (len(rows), width)
    for n, (x, w) in enumerate(per_row(tokens, rows)):
        np.testing.assert_array_equal(advantage[n, : len(x)], x)
        np.testing.assert_array_equal(weight[n, : len(w)], w)
        assert not advantage[n, len(x) :].any()
        assert not weight[n, len(w) :].any()


@settings(max_examples=30)
@given(world=worlds(most_calls=1), method=st.sampled_from(("grpo", "gigpo", "mt_grpo")), data=st.data())
def test_groups_apart_have_the_numbers_of_groups_together(world, method, data):
    rows, _ = world
    plain = by_name(numbers(method, rows))
    for group in {row.group for row in rows}:
        assert_same(
            by_name(numbers(method, [row for row in rows if row.group == group])),
            {(row.id, row.index): plain[row.id, row.index] for row in rows if row.group == group},
        )


def test_what_stands_behind_a_completion_is_context_of_the_next():
    # row 0 ends with an observation that was not sampled; row 1 goes on behind it
    first = HostRow("g", "a", [1, 2], [5, 9, 9], mask=[1, 0, 0], reward=None)
    second = HostRow("g", "a", [1, 2, 5, 9, 9, 7], [6], index=1, reward=1.0)
    steps = batch_of([second, first]).trajectories[0].steps
    assert [step.prompt_ids.tolist() for step in steps] == [[1, 2], [9, 9, 7]]
    assert [step.fresh for step in steps] == [False, False]
    assert batch_of([first, replace(second, prompt_ids=[1, 3])]).trajectories[0].steps[1].fresh


def test_equal_steps_of_a_rollout_are_no_copies():
    # an agent without a memory that runs into the same wall twice: two steps, not one
    rows = [HostRow("g", "a", [1], [5], index=k, reward=1.0) for k in range(2)]
    assert len(batch_of(rows).trajectories[0].steps) == 2
    assert len(batch_of([rows[0], rows[0], rows[1]]).trajectories[0].steps) == 2


def test_a_rollout_that_nobody_scored_anywhere_is_no_reason_to_stop():
    rows, _ = rollout([1], "g", "a")
    rows = [replace(row, reward=None, step_rewards=None) for row in rows]
    ((_, _, advantage, weight),) = numbers("gigpo", rows)
    assert not advantage.any()
    assert not weight.any()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mask": [1]}, "row 'a': the mask has 1 entries for 3 completion tokens"),
        ({"spans": [(0, 2), (1, 3)]}, "step 1 spans tokens 1 to 3 of 3, and the step before ended at 2"),
        ({"spans": [(0, 2)]}, "token 2 was sampled and is in no step"),
        ({"spans": [(1, 3)]}, "token 0 was sampled and is in no step"),
        ({"mask": [1, 0, 1], "spans": [(0, 3)]}, "step 0 holds token 1, which the policy did not sample"),
        ({"mask": [0, 0, 0], "spans": []}, "row 'a' has no steps"),
        ({"step_rewards": [1.0, 2.0]}, "row 'a': 2 step_rewards for 1 steps; give one per step"),
        ({"logp": [0.0]}, "row 'a': 1 logp for 3 completion tokens; give one per token"),
        ({"columns": {"x": [[0.0, 1.0], [2.0]]}}, "row 'a': x are no numbers; give each row one number per completion"),
        ({"columns": {"x": [[0.0] * 3]}}, "row 'a': x has 2 axes; give each row one number per completion token"),
        ({"columns": {"prm": [0.0]}}, "row 'a': 1 prm for 3 completion tokens"),
        ({"index": 1}, "rollout 'a': row 0 is missing, and there is a row 1"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(changes, sentence):
    row = HostRow("g", "a", [1], [5, 6, 7], reward=1.0)
    with pytest.raises(DataError, match=re.escape(sentence)):
        batch_of([replace(row, **changes)])


def test_rows_that_disagree_are_refused():
    row = HostRow("g", "a", [1], [5], reward=1.0)
    with pytest.raises(DataError, match="index 0 comes twice with other tokens; give each rollout its own id"):
        batch_of([row, replace(row, completion_ids=[6])])
    with pytest.raises(DataError, match=r"rollout 'a': reward is 1\.0 in one row and 2\.0 in another"):
        batch_of([row, replace(row, index=1, reward=2.0)])
    with pytest.raises(DataError, match="group is 'g' in one row and 'h' in another"):
        batch_of([row, replace(row, index=1, group="h")])


def test_a_limit_ends_a_rollout_at_its_last_step():
    rows = [HostRow("g", "a", [1], [5, 9, 6], mask=[1, 0, 1], index=k, reward=1.0, truncated=k == 1) for k in range(2)]
    assert batch_of(rows).truncated_S.tolist() == [False, False, False, True]
    assert batch_of([replace(rows[0], truncated=True), replace(rows[1], truncated=False)]).truncated_N.tolist() == [
        False
    ]
