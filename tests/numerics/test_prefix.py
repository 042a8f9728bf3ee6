"""Common prefixes and prefix trees against plain loops over dictionaries, compiled and not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import DataError
from apportion.numerics.prefix import common_prefixes, prefix_changes, prefix_runs, prefix_values


@pytest.fixture(params=["0", "1"], ids=["numpy", "numba"])
def kernels(request, monkeypatch):
    if request.param == "1":
        pytest.importorskip("numba")
    monkeypatch.setenv("APPORTION_NUMBA", request.param)


def packed(rows):
    size = np.array([len(row) for row in rows], dtype=np.int64)
    stop = np.cumsum(size)
    flat = np.array([token for row in rows for token in row], dtype=np.int64)
    return flat, stop - size, stop


def random_rows(seed):
    """Groups of 1 to 9 short sequences over few ids; copies, prefixes of others and empty ones among them."""
    rng = np.random.default_rng(seed)
    rows, group = [], []
    for g in range(int(rng.integers(1, 4))):
        for _ in range(int(rng.integers(1, 10))):
            row = rng.integers(0, 2, size=int(rng.integers(0, 8))).tolist()
            if rows and rng.random() < 0.3:
                row = rows[-1][: int(rng.integers(0, len(rows[-1]) + 1))] + row
            rows.append(row)
            group.append(g)
    order = rng.permutation(len(rows))
    return [rows[k] for k in order], np.array(group)[order]


def shared(a, b):
    k = 0
    while k < min(len(a), len(b)) and a[k] == b[k]:
        k += 1
    return k


def slow_sharers(rows, group, chosen, i, k):
    """Sequences of the group that start with the first k ids of row i."""
    return [
        j
        for j in range(len(rows))
        if group[j] == group[i] and chosen[j] and len(rows[j]) >= k and rows[j][:k] == rows[i][:k]
    ]


@pytest.mark.parametrize("seed", range(30))
def test_common_prefixes_equal_a_loop(kernels, seed):
    rows, group = random_rows(seed)
    pairs = common_prefixes(*packed(rows), group)
    got = {(i, j): k for i, j, k in zip(*(x.tolist() for x in pairs), strict=True)}
    want = {
        (i, j): shared(rows[i], rows[j])
        for i in range(len(rows))
        for j in range(len(rows))
        if i != j and group[i] == group[j]
    }
    assert got == want


@given(st.lists(st.lists(st.integers(0, 1), max_size=6), max_size=7))
def test_common_prefixes_of_any_rows(rows):
    pairs = common_prefixes(*packed(rows), np.zeros(len(rows), dtype=np.int64))
    for i, j, k in zip(*(x.tolist() for x in pairs), strict=True):
        assert k == shared(rows[i], rows[j])
    assert len(pairs.length_P) == len(rows) * (len(rows) - 1)


@pytest.mark.parametrize("seed", range(30))
def test_runs_equal_the_sets_of_sharers(kernels, seed):
    rows, group = random_rows(seed)
    flat, start, stop = packed(rows)
    chosen = np.random.default_rng(seed).random(len(rows)) < 0.8
    runs = prefix_runs(flat, start, stop, group, where=chosen)
    assert (np.diff(runs.start_R) > 0).all()  # no run is empty
    run_of_X = np.searchsorted(runs.start_R, np.arange(len(flat)), side="right") - 1
    node_of = {}
    for i, row in enumerate(rows):
        before = None
        for k in range(1, len(row) + 1):
            sharers = slow_sharers(rows, group, chosen, i, k)
            r = run_of_X[start[i] + k - 1]
            assert runs.seq_of_R[r] == i
            assert runs.members_R[r] == len(sharers)
            # a run starts where the sharers change, and nowhere else
            assert (runs.start_R[r] == start[i] + k - 1) == (sharers != before)
            before = sharers
            # a node is a set of sharers and where they came together; without sharers it is one's own
            who = (group[i], tuple(sharers), k if not sharers else None, i if not sharers else None)
            if sharers:
                first = next(m for m in range(1, k + 1) if slow_sharers(rows, group, chosen, i, m) == sharers)
                who = (group[i], tuple(sharers), tuple(row[:first]))
            else:
                who = (i, int(r))
            assert node_of.setdefault(runs.node_R[r], who) == who
    assert len(set(node_of.values())) == len(node_of)
    assert sorted(set(runs.seq_of_R.tolist())) == [i for i, row in enumerate(rows) if row]


@pytest.mark.parametrize("leave_one_out", [False, True], ids=["self", "others"])
@pytest.mark.parametrize("seed", range(30))
def test_values_and_changes_equal_the_mean_over_sharers(kernels, seed, leave_one_out):
    rows, group = random_rows(seed)
    rng = np.random.default_rng([seed, 1])
    x, chosen = rng.normal(size=len(rows)), rng.random(len(rows)) < 0.8
    x[~chosen] = np.nan  # never read
    flat, start, stop = packed(rows)
    runs = prefix_runs(flat, start, stop, group, where=chosen)
    value_R = prefix_values(runs, x, where=chosen, leave_one_out=leave_one_out)
    change_R = prefix_changes(runs, x, group, where=chosen, leave_one_out=leave_one_out)
    run_of_X = np.searchsorted(runs.start_R, np.arange(len(flat)), side="right") - 1
    change_X = np.zeros(len(flat))
    change_X[runs.start_R] = change_R
    for i, row in enumerate(rows):
        before = 0.0
        for k in range(len(row) + 1):
            sharers = [j for j in slow_sharers(rows, group, chosen, i, k) if j != i or not leave_one_out]
            want = float(np.mean(x[sharers])) if sharers else 0.0
            if k > 0:
                assert value_R[run_of_X[start[i] + k - 1]] == pytest.approx(want, abs=1e-12)
                known = bool(sharers) or not leave_one_out
                assert change_X[start[i] + k - 1] == pytest.approx((want - before) if known else 0.0, abs=1e-12)
            before = want


def test_worked_values(kernels):
    # ABC (1), ABD (0), AE (0): V is 1/3 behind A, 1/2 behind AB, then one's own
    flat, start, stop = packed([[1, 2, 3], [1, 2, 4], [1, 5]])
    runs = prefix_runs(flat, start, stop, np.zeros(3, dtype=np.int64))
    x = np.array([1.0, 0.0, 0.0])
    assert runs.start_R.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    np.testing.assert_allclose(prefix_values(runs, x), [1 / 3, 1 / 2, 1, 1 / 3, 1 / 2, 0, 1 / 3, 0])
    others = [0, 0, 0, 1 / 2, 1, 0, 1 / 2, 0]
    np.testing.assert_allclose(prefix_values(runs, x, leave_one_out=True), others)
    changes = prefix_changes(runs, x, np.zeros(3, dtype=np.int64))
    np.testing.assert_allclose(changes, [0, 1 / 6, 1 / 2, 0, 1 / 6, -1 / 2, 0, -1 / 3], atol=1e-12)
    changes = prefix_changes(runs, x, np.zeros(3, dtype=np.int64), leave_one_out=True)
    np.testing.assert_allclose(changes, [0, 0, 0, 0, 1 / 2, 0, 0, 0], atol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_compiled_runs_equal_those_of_numpy_number_by_number(monkeypatch, seed):
    pytest.importorskip("numba")
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(12), rng.integers(1, 40, size=12)))  # groups stand mixed
    trunk = rng.integers(0, 3, size=300).tolist()
    rows = [
        trunk[: int(rng.integers(0, 300))] + rng.integers(0, 2, size=int(rng.integers(0, 6))).tolist() for _ in group
    ]
    flat, start, stop = packed(rows)
    limit = start + rng.integers(0, 300, size=len(rows))
    for where in (None, rng.random(len(rows)) < 0.6, np.zeros(len(rows), dtype=bool)):
        both = []
        for setting in "01":
            monkeypatch.setenv("APPORTION_NUMBA", setting)
            both.append(prefix_runs(flat, start, stop, group, where=where, limit_N=limit))
        for plain, fast in zip(*both, strict=True):
            assert plain.dtype == fast.dtype == np.int64
            np.testing.assert_array_equal(fast, plain)


def test_a_limit_ends_the_sharing(kernels):
    rows = [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 5]]
    flat, start, stop = packed(rows)
    runs = prefix_runs(flat, start, stop, np.zeros(3, dtype=np.int64), limit_N=start + np.array([2, 4, 4]))
    assert runs.start_R.tolist() == [0, 2, 4, 6, 7, 8, 10, 11]
    assert runs.members_R.tolist() == [3, 1, 3, 2, 1, 3, 2, 1]


def test_long_sequences_are_compared_in_steps(kernels):
    rng = np.random.default_rng(0)
    trunk = rng.integers(0, 1000, size=5000).tolist()
    rows = [[*trunk[:k], -1 - k] for k in (0, 1, 15, 16, 17, 79, 80, 81, 335, 336, 337, 5000)]
    pairs = common_prefixes(*packed(rows), np.zeros(len(rows), dtype=np.int64))
    for i, j, k in zip(*(x.tolist() for x in pairs), strict=True):
        assert k == min(len(rows[i]), len(rows[j])) - 1


def test_ids_of_both_widths_and_nothing_at_all(kernels):
    rows, group = random_rows(3)
    flat, start, stop = packed(rows)
    wide, narrow = (common_prefixes(flat.astype(dtype), start, stop, group) for dtype in (np.int64, np.int32))
    assert wide.length_P.tolist() == narrow.length_P.tolist()
    none = np.zeros(0, dtype=np.int64)
    runs = prefix_runs(none, none, none, none)
    assert len(runs.seq_of_R) == len(prefix_values(runs, none)) == len(prefix_changes(runs, none, none)) == 0


def test_what_it_refuses():
    with pytest.raises(DataError, match="common_prefixes: a sequence reaches outside the 3 ids; check start_N"):
        common_prefixes(np.arange(3), np.array([0]), np.array([4]), np.array([0]))


@pytest.mark.parametrize(("start", "stop"), [((-1, 0), (2, 3)), ((0, 1), (2, 4)), ((0, 2), (2, 1))])
def test_one_sequence_that_reaches_outside_is_enough(start, stop):
    with pytest.raises(DataError, match="common_prefixes: a sequence reaches outside the 3 ids"):
        common_prefixes(np.arange(3), np.array(start), np.array(stop), np.zeros(2, dtype=int))
