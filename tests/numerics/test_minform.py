import math

import numpy as np
import pytest

from apportion.errors import ConfigError
from apportion.numerics.minform import grid_min, min_form

R = np.array([0.9, 0.8, -0.6, 0.5])
ONE = np.zeros(4, dtype=np.int64)


@pytest.mark.parametrize(
    ("temperature", "want"),
    [
        (1.0, [0.111404, 0.109441, -0.332853, 0.092331]),
        (0.1, [0.0, 0.000001, -0.599989, 0.000008]),
        (0.01, [0, 0, -0.6, 0]),
    ],
)
def test_worked_example(temperature, want):
    np.testing.assert_allclose(min_form(R, ONE, temperature=temperature), want, atol=1e-6)


def test_the_published_case():
    # arXiv 2504.15275, as asked in the repository: .9 .2 .6
    r = np.array([0.9, 0.2, 0.6])
    np.testing.assert_allclose(min_form(r, ONE[:3], temperature=1e-9), [0, 0.2, 0], atol=1e-12)
    np.testing.assert_allclose(min_form(r, ONE[:3]), [0.000805, 0.196227, 0.010782], atol=1e-6)


def test_the_soft_minimum_lies_above_the_minimum():
    for r, bias in (([0.5, 0.6], 0.026894), ([0.5, 0.6, 0.7, 0.8], 0.050735)):
        got = min_form(np.array(r), np.zeros(len(r), dtype=np.int64)).sum()
        assert got - 0.5 == pytest.approx(bias, abs=1e-6)


def test_more_good_steps_change_the_sum_form_only():
    longer = np.append(R, [0.9] * 3)
    seg = np.zeros(7, dtype=np.int64)
    assert min_form(longer, seg, form="sum").sum() == pytest.approx(4.3)
    assert min_form(longer, seg).sum() == pytest.approx(-0.599979, abs=1e-6)
    assert min_form(np.array([0.9] * 10), np.zeros(10, dtype=np.int64)).sum() == pytest.approx(0.9)


def slow(reward, seg, where, temperature, form):
    out = []
    for x, s, chosen in zip(reward, seg, where, strict=True):
        own = [r for r, t, w in zip(reward, seg, where, strict=True) if t == s and w]
        if not chosen:
            out.append(0.0)
        elif form == "sum":
            out.append(x)
        elif form == "strict":
            out.append(x / own.count(min(own)) if x == min(own) else 0.0)
        else:
            out.append(x * math.exp(-x / temperature) / sum(math.exp(-r / temperature) for r in own))
    return out


@pytest.mark.usefixtures("both_kernels")
@pytest.mark.parametrize("form", ["soft", "strict", "sum"])
@pytest.mark.parametrize("seed", range(20))
def test_equals_a_loop(seed, form):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 20))
    reward, seg = np.round(rng.normal(size=n), 1), rng.integers(0, 4, size=n)
    where = rng.random(n) < 0.7
    held = np.where(where, reward, np.nan)  # never read where it is not chosen
    for temperature in (0.1, 1.0):
        got = min_form(held, seg, temperature=temperature, form=form, where=where)
        np.testing.assert_allclose(got, slow(reward, seg, where, temperature, form), atol=1e-12)


@pytest.mark.usefixtures("both_kernels")
@pytest.mark.parametrize("seed", range(30))
def test_the_smallest_to_come_equals_a_loop(seed):
    rng = np.random.default_rng(seed)
    seg = np.repeat(np.arange(6), rng.integers(0, 9, size=6))
    n = len(seg)
    reward, where, zeros = np.round(rng.normal(size=n), 1), rng.random(n) < 0.6, rng.random(n) < 0.5
    want = []
    for x in range(n):
        grid = [reward[j] for j in range(x, n) if seg[j] == seg[x] and where[j]] + [0.0] * bool(zeros[x])
        want.append(min(grid) if grid else 0.0)
    got = grid_min(np.where(where, reward, np.nan), seg, where=where, zeros=zeros)
    assert got.tolist() == want


@pytest.mark.usefixtures("both_kernels")
def test_the_published_grid():
    # 0 .9 0 .8 0 .5 in a row of six: never above 0 but at the last token; padding behind it holds zeros too
    reward, one = np.array([0.0, 0.9, 0.0, 0.8, 0.0, 0.5]), np.zeros(6, dtype=np.int64)
    where = reward > 0
    for padding, want in ((False, [0, 0, 0, 0, 0, 0.5]), (True, [0, 0, 0, 0, 0, 0])):
        zeros = np.array([True] * 5 + [padding])
        assert grid_min(reward, one, where=where, zeros=zeros).tolist() == want
    assert grid_min(-reward, one, where=where, zeros=zeros).tolist() == [-0.9, -0.9, -0.8, -0.8, -0.5, -0.5]


@pytest.mark.usefixtures("both_kernels")
def test_limits():
    rng = np.random.default_rng(0)
    reward, seg = rng.normal(size=30), rng.integers(0, 5, size=30)
    np.testing.assert_allclose(min_form(reward, seg, temperature=1e-6), min_form(reward, seg, form="strict"), atol=1e-9)
    flat = min_form(reward, seg, temperature=1e9)
    np.testing.assert_allclose(flat, reward / np.bincount(seg)[seg], rtol=1e-6)
    for s in range(5):  # at a high temperature it sums to the mean
        assert flat[seg == s].sum() == pytest.approx(reward[seg == s].mean())
    assert np.isfinite(min_form(np.array([1e6, -1e6]), ONE[:2], temperature=1e-3)).all()


def test_what_it_refuses():
    with pytest.raises(ConfigError, match="min_form: form is 'min'; give 'soft', 'strict' or 'sum'"):
        min_form(R, ONE, form="min")
