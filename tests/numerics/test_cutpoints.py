"""Partitions at tokens of low probability: numbers worked by hand, brute force over all partitions, plain loops."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import ConfigError, DataError
from apportion.numerics import _numpy_cutpoints, below_probability, cutpoint_starts

P = [0.99, 0.95, 0.6, 0.97, 0.85, 0.99, 0.3, 0.92, 0.7, 0.99, 0.5, 0.98]  # cutpoints 2 4 6 8 10


def starts(p, **options):
    return cutpoint_starts(np.log(p), [0, len(p)], **options).tolist()


@pytest.mark.usefixtures("both_kernels")
def test_worked_example():
    assert np.flatnonzero(below_probability(np.log(P), 0.9)).tolist() == [2, 4, 6, 8, 10]
    assert starts(P, interval=2) == [0, 2, 6, 10]
    assert starts(P, interval=5) == [0, 2]
    assert starts(P, count=2) == [0, 8]  # 3 and 2 cutpoints
    assert starts(P, count=3) == [0, 6, 10]  # 2, 2 and 1
    assert starts(P, count=5) == starts(P, count=99) == [0, 4, 6, 8, 10]
    assert starts(P, count=1) == [0]


@pytest.mark.usefixtures("both_kernels")
def test_edges():
    assert starts([0.9, 0.9, 0.8], interval=1) == [0, 2]  # strictly below
    assert starts([0.95, 1.0], count=3) == starts([0.95, 1.0], interval=3) == [0]
    assert starts([0.1], count=2) == starts([0.1], interval=2) == [0]
    assert starts([0.1, 0.1, 0.1], interval=2) == [0, 2]
    assert starts([0.5, 0.99], rho=0.2, interval=1) == [0]
    assert cutpoint_starts(np.log([0.1, 0.5]), [0, 0, 1, 1, 2, 2], count=4).tolist() == [0, 1]  # empty runs
    assert cutpoint_starts(np.zeros(0), [0], count=1).tolist() == []


def cost(low, starts):
    return sum(sum(low[a:b]) ** 2 for a, b in zip(starts, [*starts[1:], len(low)], strict=True))


low_of_runs = st.lists(st.lists(st.booleans(), max_size=9), min_size=1, max_size=4)


@pytest.mark.usefixtures("both_kernels")
@given(low_of_runs, st.integers(1, 5))
def test_an_equal_share_is_the_optimum_over_all_partitions(runs, count):
    """Σ |U ∩ segment|² is smallest among every partition of the run into as many non-empty segments."""
    logp = np.where([low for run in runs for low in run], -1.0, 0.0)
    bounds = np.cumsum([0, *map(len, runs)])
    got = cutpoint_starts(logp, bounds, count=count)
    for run, lo, hi in zip(runs, bounds[:-1], bounds[1:], strict=True):
        mine = (got[(got >= lo) & (got < hi)] - lo).tolist()
        if not run:
            assert mine == []
            continue
        assert len(mine) == min(count, max(sum(run), 1))
        every = [cost(run, [0, *inner]) for inner in combinations(range(1, len(run)), len(mine) - 1)]
        assert cost(run, mine) == min(every)
        shares = [sum(run[a:b]) for a, b in zip(mine, [*mine[1:], len(run)], strict=True)]
        assert shares == sorted(shares, reverse=True)  # the larger ones first
        assert all(run[a] for a in mine[1:])  # each begins at a cutpoint


def test_the_value_of_the_optimum():
    for u, k, value in ((5, 2, 13), (7, 3, 17), (4, 6, 4), (6, 3, 12)):
        got = starts([0.1] * u, count=k)
        assert cost([1] * u, got) == value


def slow_starts(low, interval):
    """Count cutpoints from the first one; a segment starts at every q-th."""
    out, seen = [], 0
    for t, is_low in enumerate(low):
        if t == 0 or (is_low and seen % interval == 0):
            out.append(t)
        seen += is_low
    return out


@pytest.mark.usefixtures("both_kernels")
@given(low_of_runs, st.integers(1, 4))
def test_an_interval_against_a_plain_loop(runs, interval):
    logp = np.where([low for run in runs for low in run], -1.0, 0.0)
    bounds = np.cumsum([0, *map(len, runs)])
    want = [int(lo) + t for run, lo in zip(runs, bounds[:-1], strict=True) for t in slow_starts(run, interval)]
    assert cutpoint_starts(logp, bounds, interval=interval).tolist() == want


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_kernels_agree_on_a_large_batch(monkeypatch, dtype):
    pytest.importorskip("numba")
    rng = np.random.default_rng(0)
    logp = -rng.exponential(0.1, size=20_000).astype(dtype)
    bounds = np.unique(np.append(rng.integers(0, 20_000, size=200), [0, 20_000]))
    results = []
    for setting in "01":
        monkeypatch.setenv("APPORTION_NUMBA", setting)
        results.append([cutpoint_starts(logp, bounds, interval=5), cutpoint_starts(logp, bounds, count=7)])
    for plain, compiled in zip(*results, strict=True):
        assert plain.tolist() == compiled.tolist()
        assert plain.dtype == compiled.dtype == np.int64


def test_the_brute_force_can_fail(monkeypatch):
    monkeypatch.setenv("APPORTION_NUMBA", "0")
    monkeypatch.setattr(_numpy_cutpoints, "by_count", lambda *given: _numpy_cutpoints.by_interval(*given))
    with pytest.raises(AssertionError):
        assert starts(P, count=2) == [0, 8]


@pytest.mark.parametrize("given_", [{}, {"count": 2, "interval": 3}])
def test_one_way_of_cutting(given_):
    with pytest.raises(ConfigError, match="cutpoint_starts needs count or interval, one of the two; got count"):
        starts(P, **given_)


def test_what_it_refuses():
    for bad in (0, True, 1.5):
        with pytest.raises(ConfigError, match=r"cutpoint_starts: count is .*; give a whole number from 1 on"):
            starts(P, count=bad)
    for rho in (0.0, 1.1, float("nan")):
        with pytest.raises(ConfigError, match=r"rho is .*; a probability threshold lies in \(0, 1\]"):
            starts(P, count=1, rho=rho)
    with pytest.raises(DataError, match="bounds_R must be flat, begin with 0 and end with the number of tokens, 12"):
        cutpoint_starts(np.log(P), [0, 5], count=1)
    with pytest.raises(DataError, match="bounds_R must not decrease"):
        cutpoint_starts(np.log(P), [0, 8, 5, 12], count=1)
