"""Credit on tokens: three ways of spreading, splitting, padding; unknown, dropped and zero are three things."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.units import by_agent, by_episode, by_segment, by_step, by_token
from tests.make import random_units

# two prompt tokens, three sampled, one of the tool, two sampled; then a trajectory of one prompt and one sampled token
STEPS = [Step(prompt_ids=[9, 9], ids=[1, 2, 3]), Step(prompt_ids=[8], ids=[4, 5], reward=1.0)]
SHORT = [Step(prompt_ids=[7], ids=[6], reward=0.0)]


def credited(advantage_S=(6.0, 2.0, -1.0), **masks):
    batch = Batch.from_trajectories([Trajectory(STEPS, group="g"), Trajectory(SHORT, group="g")])
    return Credit(np.array(advantage_S), by_step(batch), **{k: np.array(v) for k, v in masks.items()})


def test_copy_gives_every_token_the_credit_of_its_unit():
    tokens = credited().to_tokens()
    assert tokens.advantage_T.tolist() == [0, 0, 6, 6, 6, 0, 2, 2, 0, -1]
    assert tokens.weight_T.tolist() == [0, 0, 1, 1, 1, 0, 1, 1, 0, 1]


def test_divide_shares_it_and_keeps_the_sum():
    tokens = credited().to_tokens("divide")
    assert tokens.advantage_T.tolist() == [0, 0, 2, 2, 2, 0, 1, 1, 0, -1]
    assert tokens.weight_T.tolist() == [0, 0, 1, 1, 1, 0, 1, 1, 0, 1]


def test_last_puts_it_at_the_end():
    tokens = credited().to_tokens("last")
    assert tokens.advantage_T.tolist() == [0, 0, 0, 0, 6, 0, 0, 2, 0, -1]
    assert tokens.weight_T.tolist() == [0, 0, 1, 1, 1, 0, 1, 1, 0, 1]


def test_another_spread_is_refused():
    with pytest.raises(ConfigError, match="to_tokens: spread is 'first'; give 'copy', 'divide' or 'last'"):
        credited().to_tokens("first")


def test_unknown_dropped_and_zero():
    # zero counts in the loss; unknown and dropped do not; a dropped unit keeps its credit for the reader
    zero = credited([0.0, 2.0, -1.0]).to_tokens()
    unknown = credited(known_S=[False, True, True]).to_tokens()
    dropped = credited(train_S=[False, True, True]).to_tokens()
    assert zero.weight_T.tolist() == [0, 0, 1, 1, 1, 0, 1, 1, 0, 1]
    assert unknown.weight_T.tolist() == dropped.weight_T.tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 0, 1]
    assert zero.advantage_T.tolist() == unknown.advantage_T.tolist() == [0, 0, 0, 0, 0, 0, 2, 2, 0, -1]
    assert dropped.advantage_T.tolist() == [0, 0, 6, 6, 6, 0, 2, 2, 0, -1]


def test_a_unit_without_tokens_writes_nowhere():
    steps = [Step(prompt_ids=[1], ids=[]), Step(prompt_ids=[2], ids=[3], reward=1.0)]
    units = by_step(Batch.from_trajectories([Trajectory(steps)]))
    for spread in ("copy", "divide", "last"):
        assert Credit(np.array([5.0, 2.0]), units).to_tokens(spread).advantage_T.tolist() == [0, 0, 2]


def test_tokens_of_a_unit_need_not_be_neighbours():
    steps = [Step(ids=[s], agent=a, reward=0.0) for s, a in enumerate("pcp")]
    units = by_agent(Batch.from_trajectories([Trajectory(steps)]))
    credit = Credit(np.array([4.0, 1.0]), units)
    assert credit.to_tokens().advantage_T.tolist() == [4, 1, 4]
    assert credit.to_tokens("divide").advantage_T.tolist() == [2, 1, 2]
    assert credit.to_tokens("last").advantage_T.tolist() == [0, 1, 4]


def test_split_gives_each_trajectory_its_own():
    first, second = credited().to_tokens().split()
    assert first.ids.tolist() == [9, 9, 1, 2, 3, 8, 4, 5]
    assert first.sampled.tolist() == [False, False, True, True, True, False, True, True]
    assert first.advantage.tolist() == [0, 0, 6, 6, 6, 0, 2, 2]
    assert first.weight.tolist() == [0, 0, 1, 1, 1, 0, 1, 1]
    assert second.ids.tolist() == [7, 6]
    assert second.advantage.tolist() == [0, -1]


def test_padded_on_the_right():
    padded = credited().to_tokens().padded(pad_id=-7)
    assert padded.ids.tolist() == [[9, 9, 1, 2, 3, 8, 4, 5], [7, 6, -7, -7, -7, -7, -7, -7]]
    assert padded.advantage.tolist() == [[0, 0, 6, 6, 6, 0, 2, 2], [0, -1, 0, 0, 0, 0, 0, 0]]
    assert padded.weight.tolist() == [[0, 0, 1, 1, 1, 0, 1, 1], [0, 1, 0, 0, 0, 0, 0, 0]]
    assert padded.sampled.sum(axis=1).tolist() == [5, 1]
    assert padded.real.sum(axis=1).tolist() == [8, 2]


def test_padded_on_the_left():
    padded = credited().to_tokens().padded(side="left", length=9)
    assert padded.ids.tolist() == [[0, 9, 9, 1, 2, 3, 8, 4, 5], [0, 0, 0, 0, 0, 0, 0, 7, 6]]
    assert padded.advantage.tolist() == [[0, 0, 0, 6, 6, 6, 0, 2, 2], [0, 0, 0, 0, 0, 0, 0, 0, -1]]
    assert padded.real.tolist() == [[False] + [True] * 8, [False] * 7 + [True] * 2]


def test_masks_come_from_lengths_never_from_the_pad_id():
    # the sampled end-of-sequence id is the pad id, and so is a token in the middle
    steps = [Step(prompt_ids=[5], ids=[2, 6, 2], reward=1.0)]
    units = by_episode(Batch.from_trajectories([Trajectory(steps), Trajectory(SHORT)]))
    padded = Credit(np.array([3.0, 1.0]), units).to_tokens().padded(pad_id=2, length=6)
    assert padded.real.tolist()[0] == [True] * 4 + [False] * 2
    assert padded.weight.tolist()[0] == [0, 1, 1, 1, 0, 0]


def test_padded_refuses_to_cut():
    tokens = credited().to_tokens()
    with pytest.raises(
        ConfigError, match=r"length 7 is shorter than the longest trajectory \(8 tokens\); give at least 8"
    ):
        tokens.padded(length=7)
    with pytest.raises(ConfigError, match="side is 'top'; give 'right' or 'left'"):
        tokens.padded(side="top")


@given(st.integers(0, 200), st.sampled_from(["right", "left"]), st.integers(0, 3))
def test_padding_and_splitting_hold_the_same_numbers(seed, side, more):
    credit = assign("grpo", random_units(seed, groups=2, forks=False))
    tokens = credit.to_tokens()
    width = max(len(piece.ids) for piece in tokens.split()) + more
    padded = tokens.padded(side=side, length=width)
    for row, piece in enumerate(tokens.split()):
        real = padded.real[row]
        assert real.sum() == len(piece.ids)
        assert real[: len(piece.ids)].all() if side == "right" else real[width - len(piece.ids) :].all()
        for name in ("ids", "sampled", "advantage", "weight"):
            assert getattr(padded, name)[row][real].tolist() == getattr(piece, name).tolist()
            if name != "ids":
                assert not getattr(padded, name)[row][~real].any()


@given(st.integers(0, 200))
def test_only_sampled_tokens_of_counted_units_hold_anything(seed):
    units = random_units(seed, groups=2, forks=False)
    rng = np.random.default_rng(seed)
    for cut in (by_step, by_token, by_episode, lambda b: by_segment(b, "fixed", count=2)):
        u = cut(units.batch)
        credit = Credit(rng.normal(size=len(u)) + 10.0, u, train_S=rng.random(len(u)) < 0.8)
        for spread in ("copy", "divide", "last"):
            tokens = credit.to_tokens(spread)
            assert not tokens.advantage_T[~u.batch.sampled_T].any()
            assert not tokens.weight_T[~u.batch.sampled_T].any()
            assert tokens.weight_T.sum() == u.tokens_S[credit.weight_S].sum()
            if spread != "copy":
                total = np.bincount(u.unit_of_T[u.unit_of_T >= 0], tokens.advantage_T[u.unit_of_T >= 0], len(u))
                np.testing.assert_allclose(total, np.where(u.tokens_S > 0, credit.advantage_S, 0.0))


def test_the_result_is_read_only_and_the_credit_untouched():
    credit = credited()
    tokens = credit.to_tokens()
    for array in (tokens.advantage_T, tokens.weight_T):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert dataclasses.replace(credit).to_tokens().advantage_T.tolist() == tokens.advantage_T.tolist()
