"""`Credit`: what it refuses, what unknown and dropped mean, and that parts add up."""

import dataclasses

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Cost, Credit
from apportion.errors import DataError
from tests.make import random_units, units_of


@pytest.fixture(autouse=True, params=["as it is", 1, 2])
def piece(request, monkeypatch):
    """Numbers are looked at in pieces; where they end must not matter."""
    if request.param != "as it is":
        monkeypatch.setattr("apportion.credit.kept.BLOCK", request.param)


def units():
    return units_of([0, 0], [2, 1], [("A", 0, 2), ("B", 1, 1), ("A", 0, 3)])


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"advantage_S": [1.0, 2.0]}, r"credit.advantage_S has shape \(2,\) for 3 units; give one entry per unit"),
        ({"advantage_S": [[1.0, 2.0, 3.0]]}, r"credit.advantage_S has shape \(1, 3\)"),
        ({"known_S": [True]}, r"credit.known_S has shape \(1,\)"),
        ({"train_S": [True]}, r"credit.train_S has shape \(1,\)"),
        ({"advantage_S": [0.0, np.nan, 0.0]}, "credit of unit 1 is nan; give a finite number, or mark it unknown"),
        ({"advantage_S": [0.0, 0.0, -np.inf]}, "credit of unit 2 is -inf"),
        ({"parts": {"a": [1.0]}}, r"part 'a' has shape \(1,\) for 3 units"),
        ({"parts": {"a": [0.0, 1.0, 0.5]}}, "parts a miss the advantage by 0.5 at unit 2; parts must add up to it"),
        ({"parts": {"a": [0.0, 1.0, 1.0], "b": [0.0, np.nan, 0.0]}}, "part 'b' of unit 1 is nan; give a finite number"),
    ],
)
def test_what_does_not_fit_is_refused(fields, sentence):
    fields = {"advantage_S": [0.0, 1.0, 1.0], **fields}
    with pytest.raises(DataError, match=sentence):
        Credit(**{k: v if k == "parts" else np.array(v) for k, v in fields.items()}, units=units())


def test_parts_are_compared_at_their_own_size():
    u = units()
    # rounding of large parts that cancel is not an error
    big = np.array([1e9, 1e9 + 1, 1e9])
    Credit(np.array([0.0, 1.0, 1e-6]), u, parts={"a": big, "b": -big + [0.0, 0.0, 0.0] + [0, 0, 1e-6]})
    # a tiny credit with parts that miss it by half is one
    with pytest.raises(DataError, match="parts a miss the advantage by 5e-13"):
        Credit(np.full(3, 1e-12), u, parts={"a": np.full(3, 5e-13)})
    with pytest.raises(DataError, match="parts a miss"):
        Credit(np.zeros(3), u, parts={"a": np.full(3, 1e-15)})
    Credit(np.zeros(3), u, parts={"a": np.zeros(3)})
    # a millionth of the largest is no rounding
    with pytest.raises(DataError, match="parts a miss the advantage by 1e-06 at unit 0"):
        Credit(np.array([1.0, 0.5, 0.0]), u, parts={"a": np.array([1.0 - 1e-6, 0.5, 0.0])})


def test_unknown_is_zero_everywhere_and_may_have_been_anything():
    credit = Credit(
        np.array([1.0, np.nan, 2.0]),
        units(),
        known_S=np.array([True, False, True]),
        parts={"a": np.array([1.0, np.inf, 2.0])},
    )
    assert credit.advantage_S.tolist() == [1, 0, 2]
    assert credit.parts["a"].tolist() == [1, 0, 2]
    assert repr(credit) == "Credit(unnamed: 3 steps, 1 unknown)"


def test_known_are_the_units_of_valid_trajectories():
    u = units_of([0, 0, 0], [1, 1, 1], [("A", 1), ("A", None), ("A", 1, 0)])
    credit = Credit(np.ones(3), u)
    assert credit.known_S.tolist() == [True, False, False]
    assert credit.advantage_S.tolist() == [1, 0, 0]


def test_what_it_was_given_stays_the_callers_own():
    mask, numbers, part = np.array([True, False, True]), np.ones(3), np.array([1.0, 0.0, 1.0])
    credit = Credit(numbers, units(), known_S=mask, train_S=mask, parts={"a": part})
    mask[0], numbers[0], part[0] = False, 7.0, 7.0
    assert credit.known_S.tolist() == [True, False, True]
    assert credit.train_S.tolist() == [True, False, True]
    assert credit.advantage_S.tolist() == [1, 0, 1]
    assert credit.parts["a"].tolist() == [1, 0, 1]
    for array in (credit.advantage_S, credit.known_S, credit.train_S, credit.parts["a"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_scaled_scales_parts():
    credit = assign("gigpo", units())
    half = credit.scaled(0.5)
    np.testing.assert_allclose(half.advantage_S, credit.advantage_S / 2)
    for name in ("episode", "step"):
        np.testing.assert_allclose(half.parts[name], credit.parts[name] / 2)
    assert half.notes == credit.notes


def test_costs_add():
    total = Cost(1, 20, 300) + Cost(1, 2, 3)
    assert total == Cost(requests=2, prompt_tokens=22, generated_tokens=303)


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_every_method_add_up_within_rounding(seed):
    u = random_units(seed, forks=False)
    for expression in (
        "gigpo",
        "grpo + 0.5*anchor - 2*rloo",
        "(gigpo | whiten) + reinforce",
        "gigpo | clip(limit=0.1)",
    ):
        credit = assign(expression, u)
        assert credit.parts
        np.testing.assert_allclose(sum(credit.parts.values()), credit.advantage_S, atol=1e-9)


def test_replacing_the_mask_keeps_the_rest():
    credit = assign("gigpo", units())
    dropped = dataclasses.replace(credit, train_S=np.array([True, False, True]))
    assert dropped.advantage_S.tolist() == credit.advantage_S.tolist()
    assert dropped.weight_S.tolist() == [True, False, True]


def test_a_stamp_changes_the_name_and_nothing_else():
    units = random_units(3)
    credit = Credit(np.arange(len(units)) + 0.5, units, parts={"all": np.arange(len(units)) + 0.5}, notes={"a": 1})
    stamped = credit.stamped("mine", {"x": 1})
    assert (stamped.method, stamped.params, credit.method, credit.params) == ("mine", {"x": 1}, "", {})
    for field in dataclasses.fields(Credit):
        if field.name not in ("method", "params"):
            assert getattr(stamped, field.name) is getattr(credit, field.name)
