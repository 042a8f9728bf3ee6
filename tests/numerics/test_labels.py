"""Keys to dense ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import DataError
from apportion.numerics import labels
from tests.numerics import slow


def test_ids_count_up_in_order_of_first_appearance():
    got = labels(["b", "a", "b", "", "a"])
    assert got.tolist() == [0, 1, 0, 2, 1]
    assert got.dtype == np.int64


def test_several_columns_are_one_key():
    assert labels([0, 0, 1, 1], ["x", "y", "x", "x"]).tolist() == [0, 1, 2, 2]


def test_columns_may_be_arrays_iterators_or_tuples():
    want = [0, 1, 0]
    assert labels(np.array(["p", "q", "p"])).tolist() == want
    assert labels(np.array([5, 3, 5])).tolist() == want
    assert labels(iter("aba")).tolist() == want
    assert labels(("a", "b", "a")).tolist() == want
    assert labels(np.array([5, 3, 5]), iter("aba")).tolist() == want
    assert labels(np.array([("a", 1), ("b", 2), ("a", 1)], dtype="O,O")).tolist() == want


def test_equality_is_python_s():
    assert labels([1, 1.0, True, "1", None, None]).tolist() == [0, 0, 0, 1, 2, 2]


def test_no_keys_give_no_ids():
    assert labels([]).shape == (0,)
    assert labels([], []).shape == (0,)


def test_columns_of_different_length_are_an_error():
    with pytest.raises(DataError) as caught:
        labels([1, 2], [1])
    assert str(caught.value) == ("labels: columns of 2 and 1 keys do not fit each other; give one of each per row")


def test_a_key_without_hash_is_named():
    with pytest.raises(DataError) as caught:
        labels(["a", ("b", 1), ["c"]])
    assert str(caught.value) == (
        "labels: key 2 is a list, which cannot be compared by hash; give text, a number or a tuple"
    )


def test_large_and_negative_integers_do_not_collide():
    """Columns are joined by arithmetic, which must neither overflow nor mix up pairs."""
    huge = np.array([2**62, -(2**62), 0, 2**62, -1])
    want = [0, 1, 2, 0, 3]
    assert labels(huge, huge).tolist() == want
    assert labels(huge, huge[::-1].copy(), huge).tolist() == slow.labels(huge, huge[::-1], huge)
    assert labels(np.zeros(5, int), huge).tolist() == want
    assert labels(np.array([0, 1, 0, 1]), np.array([2, 0, 2, 2])).tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("kind", ["i1", "u1", "i4", "u8", "i8"])
@pytest.mark.parametrize("spread", [1, 1000])
def test_integers_of_every_width(kind, spread):
    info = np.iinfo(kind)
    x = np.array([info.min, info.max, 0, info.max, info.min, 5] * spread, dtype=kind)
    assert labels(x).tolist() == labels(x.tolist()).tolist() == slow.labels(x.tolist())


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["", "a", "größe", "🦊"])), max_size=40))
def test_equal_to_a_linear_search(rows):
    columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[], []]
    assert labels(*columns).tolist() == slow.labels(*columns)
