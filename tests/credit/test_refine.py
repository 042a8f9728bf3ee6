"""Masks of tokens, and the same credit on finer units."""

import dataclasses

import numpy as np
import pytest

from apportion.assign import assign, remake
from apportion.credit import Credit, read_credit, write_credit
from apportion.errors import DataError
from apportion.units import by_agent, by_episode, by_segment, by_step, by_token, by_turn
from tests.make import random_batch, random_units


def random_credit(units, seed=0, mask=True):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, len(units)))
    return Credit(
        a + b,
        units,
        known_S=rng.random(len(units)) < 0.8,
        train_S=rng.random(len(units)) < 0.8,
        train_T=rng.random(len(units.unit_of_T)) < 0.5 if mask else None,
        parts={"a": a, "b": b},
        method="mine/method",
    )


@pytest.mark.parametrize("spread", ["copy", "divide", "last"])
def test_only_tokens_of_the_mask_weigh(spread):
    credit = random_credit(random_units(1))
    free = dataclasses.replace(credit, train_T=None)
    with_mask, without = credit.to_tokens(spread), free.to_tokens(spread)
    np.testing.assert_array_equal(with_mask.advantage_T, without.advantage_T)
    np.testing.assert_array_equal(with_mask.weight_T, without.weight_T * credit.train_T)
    assert with_mask.weight_T.sum() < without.weight_T.sum()


def test_counted_tokens():
    credit = random_credit(random_units(2))
    weight_T, unit_of_T = credit.to_tokens().weight_T, credit.units.unit_of_T
    want = [int(weight_T[unit_of_T == s].sum()) for s in range(len(credit.units))]
    assert credit.counted_S.tolist() == want
    everything = Credit(credit.advantage_S, credit.units, known_S=np.ones(len(credit.units)))
    np.testing.assert_array_equal(everything.counted_S, credit.units.tokens_S)


def test_the_mask_is_a_copy_and_never_holds_context_tokens():
    units = random_units(3)
    mask = np.ones(len(units.unit_of_T), dtype=bool)
    credit = Credit(np.zeros(len(units)), units, train_T=mask)
    mask[:] = False
    np.testing.assert_array_equal(credit.train_T, units.unit_of_T >= 0)
    assert not credit.train_T.flags.writeable
    with pytest.raises(DataError, match=r"credit\.train_T has shape \(1,\) for \d+ tokens; one per token"):
        Credit(np.zeros(len(units)), units, train_T=np.ones(1))


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_files_keep_mask_and_cut(tmp_path, suffix):
    units = random_units(4, parts=True, columns=("prm",))
    for credit in (
        random_credit(units),
        random_credit(units).refine(by_token(units.batch)),
        random_credit(units, mask=False),
    ):
        path = tmp_path / f"credit.{suffix}"
        write_credit(path, credit)
        again = read_credit(path)
        if credit.train_T is None:
            assert again.train_T is None
        else:
            np.testing.assert_array_equal(again.train_T, credit.train_T)
        assert dict(again.cut) == dict(credit.cut)
        for field in ("columns", "reward_parts", "outcome_parts"):
            got, want = getattr(again.units, field), getattr(credit.units, field)
            assert list(got) == list(want)
            for name in want:
                np.testing.assert_array_equal(got[name], want[name])


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_files_keep_named_columns_of_ones_own(tmp_path, suffix):
    units = random_units(4, parts=True, columns=("prm", "other"))
    mine = dataclasses.replace(
        units,
        columns={"prm": units.columns["prm"] + 1, "new": np.arange(len(units)) * 0.1},
        reward_parts={},
        outcome_parts={"correct": np.where(np.arange(len(units.group_of_N)) % 2, np.nan, 0.25)},
    )
    path = tmp_path / f"credit.{suffix}"
    write_credit(path, random_credit(mine))
    again = read_credit(path).units
    assert sorted(again.columns) == ["new", "prm"]
    assert again.reward_parts == {}
    for field in ("columns", "outcome_parts"):
        for name, array in getattr(mine, field).items():
            np.testing.assert_array_equal(getattr(again, field)[name], array)


CUTS = {
    "episode": by_episode,
    "agent": by_agent,
    "turn": by_turn,
    "step": by_step,
    "half": lambda batch: by_segment(batch, "fixed", count=2),
    "token": by_token,
}
FINER = [
    ("episode", "turn"),
    ("episode", "agent"),
    ("episode", "token"),
    ("agent", "step"),
    ("turn", "step"),
    ("step", "half"),
]
FINER += [("half", "token"), ("step", "token"), ("step", "step"), ("token", "token")]


@pytest.mark.parametrize(("coarse", "fine"), FINER)
@pytest.mark.parametrize("seed", range(10))
def test_tokens_get_what_they_had(seed, coarse, fine):
    batch = random_batch(seed)
    if coarse == "turn" or fine == "turn":
        batch = random_batch(seed, rich=False)  # told turns may cross agents
    credit = random_credit(CUTS[coarse](batch), seed)
    units = CUTS[fine](batch)
    finer = credit.refine(units)
    assert finer.units is units
    for name in ("advantage_T", "weight_T"):
        np.testing.assert_array_equal(getattr(finer.to_tokens(), name), getattr(credit.to_tokens(), name))
    np.testing.assert_allclose(sum(finer.parts.values()), finer.advantage_S)
    for s in range(len(units)):  # by hand: the unit that holds its tokens
        outer = {int(u) for u, v in zip(credit.units.unit_of_T, units.unit_of_T, strict=True) if v == s}
        for u in outer:
            assert finer.known_S[s] == credit.known_S[u]
            assert finer.train_S[s] == credit.train_S[u]
            assert finer.parts["a"][s] == credit.parts["a"][u]


def test_a_step_without_tokens_keeps_its_own_credit():
    batch = random_batch(6)
    credit = random_credit(by_step(batch))
    assert (credit.units.tokens_S == 0).any()
    np.testing.assert_array_equal(credit.refine(by_step(batch)).advantage_S, credit.advantage_S)


def test_what_refining_refuses():
    units = random_units(1)
    credit = random_credit(units)
    with pytest.raises(DataError, match=r"refine: unit \d+ \(episode\) has tokens of two steps; refine to a finer cut"):
        credit.refine(by_episode(units.batch))
    with pytest.raises(DataError, match=r"refine: the units are of other rollouts than the credit; cut credit.units.b"):
        credit.refine(random_units(2))
    first = int(np.argmax(units.unit_of_T >= 0))
    fewer = np.array(units.unit_of_T)
    fewer[first] = -1
    with pytest.raises(DataError, match=f"refine: token {first} is in a unit of one cut only; refine to a cut of the"):
        credit.refine(dataclasses.replace(units, unit_of_T=fewer))


def test_a_refined_credit_is_made_again_from_the_units_it_began_with():
    units = random_units(5, forks=False)
    credit = assign("grpo", units)
    finer = credit.refine(by_token(units.batch))
    assert finer.record() == credit.record()
    assert finer.refine(by_token(units.batch)).record() == credit.record()
    np.testing.assert_array_equal(remake(finer.record(), units).advantage_S, credit.advantage_S)
