"""Keys to dense ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    with pytest.raises(ValueError, match="shorter"):
        labels([1, 2], [1])


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["", "a", "größe", "🦊"])), max_size=40))
def test_equal_to_a_linear_search(rows):
    columns = [list(c) for c in zip(*rows, strict=True)] if rows else [[], []]
    assert labels(*columns).tolist() == slow.labels(*columns)
