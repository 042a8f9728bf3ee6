"""Grams in id sequences: plain loops over every place, both kernels, runs that no gram may cross."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import DataError
from apportion.numerics import gram_table, mark_grams

runs_of_ids = st.lists(st.lists(st.integers(-1, 4), max_size=12), min_size=1, max_size=4)
grams = st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=4), max_size=6)


def bounds_of(runs):
    return np.cumsum([0, *map(len, runs)])


@pytest.mark.usefixtures("both_kernels")
def test_worked_example():
    table = gram_table([(1, 2), (2, 1, 2), (7,), (1, 2)])
    assert table.given_G.tolist() == [0, 1, 2]  # equal grams once
    marks = mark_grams(np.array([0, 1, 2, 1, 2, 3, 7, 1]), np.array([0, 8]), table)
    assert marks.mask_X.tolist() == [False, True, True, True, True, False, True, False]
    assert marks.places_G.tolist() == [2, 1, 1]
    cut = mark_grams(np.array([0, 1, 2, 1, 2, 3, 7, 1]), np.array([0, 4, 8]), table)
    assert np.flatnonzero(cut.mask_X).tolist() == [1, 2, 6]  # the other places reach over the end of a run


@pytest.mark.usefixtures("both_kernels")
@given(runs_of_ids, grams)
def test_slow_reference(runs, wanted):
    table = gram_table(wanted)
    ids = np.array([i for run in runs for i in run], dtype=np.int64)
    mask, count = [], dict.fromkeys(map(tuple, wanted), 0)
    for run in runs:
        own = [False] * len(run)
        for gram in count:
            for k in range(len(run) - len(gram) + 1):
                if tuple(run[k : k + len(gram)]) == gram:
                    count[gram] += 1
                    own[k : k + len(gram)] = [True] * len(gram)
        mask += own
    marks = mark_grams(ids, bounds_of(runs), table)
    assert marks.mask_X.tolist() == mask
    got = {tuple(wanted[k]): n for k, n in zip(table.given_G.tolist(), marks.places_G.tolist(), strict=True)}
    assert got == count


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_both_kernels_agree_on_a_large_batch(monkeypatch, dtype):
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    ids = np.minimum(rng.zipf(1.3, size=30_000), 40_000).astype(dtype)
    bounds = np.unique(np.append(rng.integers(0, 30_000, size=100), [0, 30_000]))
    table = gram_table([np.minimum(rng.zipf(1.3, size=rng.integers(1, 6)), 40_000).tolist() for _ in range(200)])
    results = []
    for setting in "01":
        monkeypatch.setenv("APPORTION_NUMBA", setting)
        results.append(mark_grams(ids, bounds, table))
    assert results[0].mask_X.any()
    assert results[0].mask_X.tolist() == results[1].mask_X.tolist()
    assert results[0].places_G.tolist() == results[1].places_G.tolist()


def test_nothing_to_find_or_to_search():
    assert mark_grams(np.array([1, 2]), np.array([0, 2]), gram_table([])).mask_X.tolist() == [False, False]
    assert mark_grams(np.zeros(0, int), np.array([0]), gram_table([(1,)])).mask_X.tolist() == []
    assert mark_grams(np.array([10**9, -5, 3]), np.array([0, 3]), gram_table([(3,)])).mask_X.tolist() == [0, 0, 1]


@pytest.mark.parametrize("bad", [(), (-1,), (1.5,), ("a",), (True,), (2**30,)])
def test_grams_are_ids(bad):
    with pytest.raises(DataError, match=r"gram 1 is \[.*; give one token id or more, whole numbers from 0 on"):
        gram_table([(1,), bad])


def test_runs_cover_the_ids():
    with pytest.raises(DataError, match="bounds_R must be flat, begin with 0 and end with the number of ids, 2"):
        mark_grams(np.array([1, 2]), np.array([0, 1]), gram_table([(1,)]))
