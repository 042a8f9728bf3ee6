"""Discounted sums to go and GAE: worked numbers, a slow reference, and what must not leak where."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import ConfigError, DataError
from apportion.numerics import (
    AdvantagesAndReturns,
    gae,
    gae_padded,
    gae_returns_whitened,
    gae_returns_whitened_padded,
    starts_of,
    to_go,
    to_go_padded,
    to_go_whitened,
)
from tests.numerics import slow

pytestmark = pytest.mark.usefixtures("both_kernels")

GAMMAS = (0.0, 1e-9, 0.5, 0.95, 1.0)
LENGTHS = {
    "ones": [1] * 40,
    "short": [1, 2, 3, 7, 8, 9, 15, 16, 17],
    "blocks": [31, 32, 33, 63, 64, 65, 1, 96, 1024, 1025],
    "mixed": [1] * 50 + [3000] + [2] * 30 + [40, 700, 1],
}


def ragged(lengths: list[int], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    seg = np.repeat(np.arange(len(lengths)), lengths)
    reward = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4, size=len(lengths))[seg]
    return reward, rng.standard_normal(n), seg


def agree(got, want, scale) -> None:
    """Equal to 1e-12 of the magnitude that went into each number."""
    got, want, scale = map(np.asarray, (got, want, scale))
    np.testing.assert_array_less(np.abs(got - want), 1e-12 * scale + 1e-300)


# --- worked numbers ---------------------------------------------------------------------------------------

INNER = {"reward": [0, 0, 0, 0, 0, 1.0], "mask": [1, 1, 0, 0, 1, 1], "value": [0.5, 0.6, 9, 9, 0.8, 0.9]}


@pytest.mark.parametrize(
    ("gamma", "lam", "want"),
    [
        (1.0, 0.95, [0.465987, 0.385250, 0.195, 0.1]),
        (1.0, 1.0, [0.5, 0.4, 0.2, 0.1]),
        (0.99, 0.95, [0.438260, 0.366040, 0.185050, 0.1]),
    ],
)
def test_observation_tokens_are_crossed_without_decay_and_their_values_are_not_read(gamma, lam, want):
    reward, value, mask = (np.array([INNER[k]]) for k in ("reward", "value", "mask"))
    got = gae_padded(reward, value, mask == 1, gamma=gamma, lam=lam)
    np.testing.assert_allclose(got[mask == 1], want, atol=5e-7)
    assert got[mask == 0].tolist() == [0.0, 0.0]


def test_returns_and_whitening_of_the_same_numbers():
    reward, value, mask = (np.array(INNER[k]) for k in ("reward", "value", "mask"))
    own = mask == 1
    got = gae_returns_whitened(reward, value, np.zeros(6, int), gamma=1, lam=0.95, where=own, epsilon=1e-8)
    np.testing.assert_allclose(got.returns[own], [0.965987, 0.98525, 0.995, 1.0], atol=5e-7)
    np.testing.assert_allclose(got.advantage[own], [1.065199, 0.585890, -0.543554, -1.107534], atol=5e-7)
    assert got.returns[~own].tolist() == got.advantage[~own].tolist() == [0.0, 0.0]


def test_returns_cross_environment_tokens():
    """The public bug this guards against resets the running return at every masked token."""
    reward, mask = np.array([INNER["reward"]]), np.array([INNER["mask"]]) == 1
    assert to_go_padded(reward, mask)[mask].tolist() == [1, 1, 1, 1]
    assert to_go_padded(reward, mask, gamma=0.5)[mask].tolist() == [0.125, 0.25, 0.5, 1]


CASES = [  # reward, value, gamma, lam, mask, advantage
    pytest.param([0, 0, 0, 0, 1], [0.1, 0.2, 9, 9, 0.3], 1, 0.5, [1, 1, 0, 0, 1], [0.325, 0.45, 0, 0, 0.7], id="E1"),
    pytest.param([0, 2, 0], [0.5, 0.5, 50], 1, 0.9, [1, 1, 0], [1.35, 1.5, 0], id="E3"),
    pytest.param([0, 0, 1], [0.1, 0.2, 0.3], 1, 1, [1, 1, 1], [0.9, 0.8, 0.7], id="E5"),
    pytest.param([1, 1, 1], [2, 2, 2], 1, 0, [1, 1, 1], [1, 1, -1], id="E9: no bootstrap at termination"),
]


@pytest.mark.parametrize(("reward", "value", "gamma", "lam", "mask", "want"), CASES)
def test_known_cases_of_gae(reward, value, gamma, lam, mask, want):
    mask = np.array([mask]) == 1
    got = gae_padded(np.array([reward]), np.array([value]), mask, gamma=gamma, lam=lam)
    np.testing.assert_allclose(got[0], want, atol=1e-12)
    if mask.all():
        packed = gae(np.array(reward), np.array(value), np.zeros(len(reward), int), gamma=gamma, lam=lam)
        np.testing.assert_allclose(packed, want, atol=1e-12)


@pytest.mark.parametrize(
    ("reward", "gamma", "want"),
    [
        pytest.param([1, 2, 3], 1, [6, 5, 3], id="E7: reward[t] follows action[t]"),
        pytest.param([1] * 6, 0.5, [1.96875, 1.9375, 1.875, 1.75, 1.5, 1.0], id="Y1"),
        pytest.param([1, 1, 1], 0.99, [2.9701, 1.99, 1.0], id="Y4"),
        pytest.param([0, 0, 0, 1], 0.9, [0.729, 0.81, 0.9, 1.0], id="discount 0.9"),
    ],
)
def test_known_cases_of_returns(reward, gamma, want):
    np.testing.assert_allclose(to_go(np.array(reward), np.zeros(len(reward), int), gamma=gamma), want, atol=1e-12)


def test_discounting_by_recurrence_stays_finite_over_long_rows():
    """Y1, long: division by gamma**t would be 0/0 here."""
    got = to_go(np.ones(2048), np.zeros(2048, int), gamma=0.9)
    assert np.isfinite(got).all()
    assert got[0] == pytest.approx(10.0, rel=1e-12)


def test_nan_at_a_masked_position_never_matters():
    """M6: select with the mask, never multiply by it."""
    kl, mask = np.array([[0.5, np.nan]]), np.array([[True, False]])
    reward = np.array([[1.0, np.nan]]) - 0.1 * kl
    assert to_go_padded(reward, mask).tolist() == [[0.95, 0.0]]
    assert gae_padded(reward, np.array([[0.25, np.inf]]), mask).tolist() == [[0.7, 0.0]]
    rows, own = np.vstack([reward + 1, reward]), np.vstack([mask, mask])
    got = gae_returns_whitened_padded(rows, np.zeros((2, 2)), own)
    np.testing.assert_allclose(got.advantage, [[0.5**0.5, 0], [-(0.5**0.5), 0]])


@pytest.mark.parametrize("gamma", [1.0, 0.99])
def test_one_row_of_131072_tokens_takes_no_python_per_token(gamma):
    """F1. The bound is ten times what a slow machine needs, and a tenth of a loop over tokens."""
    reward, seg = np.ones(131072), np.zeros(131072, int)
    to_go(reward, seg, gamma=gamma)
    start = time.process_time()
    got = to_go(reward, seg, gamma=gamma)
    assert time.process_time() - start < 0.2
    assert got[0] == pytest.approx(131072 if gamma == 1 else (1 - gamma**131072) / (1 - gamma), rel=1e-12)


# --- against the slow reference ----------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_to_go_equals_the_plain_loop(lengths, gamma):
    x, _, seg = ragged(lengths)
    want = slow.to_go(x.tolist(), seg.tolist(), gamma=gamma)
    scale = slow.to_go(np.abs(x).tolist(), seg.tolist(), gamma=gamma)
    agree(to_go(x, seg, gamma=gamma), want, scale)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("lam", [0.0, 0.95, 1.0])
@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_gae_equals_the_plain_loop(lengths, gamma, lam, bootstrap):
    reward, value, seg = ragged(lengths)
    last = np.random.default_rng(1).standard_normal(len(lengths)) if bootstrap else None
    want = slow.gae(reward, value, seg.tolist(), gamma=gamma, lam=lam, last_value=last)
    size = np.abs(reward) + 2 * np.abs(value) + 3
    scale = slow.to_go(size.tolist(), seg.tolist(), gamma=gamma * lam)
    agree(gae(reward, value, seg, gamma=gamma, lam=lam, last_value=last), want, scale)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_hundred_thousand_steps_equal_the_plain_loop(gamma):
    reward, value, seg = ragged([100_000, 1, 3])
    want = slow.gae(reward.tolist(), value.tolist(), seg.tolist(), gamma=gamma)
    scale = slow.to_go((np.abs(reward) + 2 * np.abs(value)).tolist(), seg.tolist(), gamma=gamma)
    agree(gae(reward, value, seg, gamma=gamma), want, scale)


def masks(shape: tuple[int, int], seed: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    stretches = np.repeat(rng.random((shape[0], shape[1] // 10 + 1)) < 0.5, 10, axis=1)[:, : shape[1]]
    padding = np.arange(shape[1]) < rng.integers(0, shape[1] + 1, size=(shape[0], 1))
    left = padding[:, ::-1]
    out = {"noise": rng.random(shape) < 0.6, "stretches": stretches, "padding": padding, "left": left}
    out |= {"all": np.ones(shape, bool), "none": np.zeros(shape, bool)}
    out["padding"][0] = False  # a row without a single token
    return out


@pytest.mark.parametrize("kind", masks((1, 1)).keys())
@pytest.mark.parametrize("gamma", [0.0, 0.95, 1.0])
@pytest.mark.parametrize("lam", [0.0, 0.9, 1.0])
def test_padded_equals_the_plain_loop_and_reads_nothing_outside_the_mask(kind, gamma, lam):
    shape = (7, 133)
    mask = masks(shape)[kind]
    rng = np.random.default_rng(0)
    reward, value = rng.standard_normal(shape), rng.standard_normal(shape)
    last = rng.standard_normal(shape[0])
    row = np.repeat(np.arange(shape[0]), shape[1]).tolist()
    want = np.array(
        slow.gae(reward.ravel(), value.ravel(), row, gamma=gamma, lam=lam, last_value=last, mask=mask.ravel())
    )
    reward[~mask], value[~mask] = np.nan, np.inf
    got = gae_padded(reward, value, mask, gamma=gamma, lam=lam, last_value_N=last)
    np.testing.assert_allclose(got.ravel(), want, atol=1e-12)
    assert (got[~mask] == 0).all()
    sums = to_go_padded(reward, mask, gamma=gamma)
    np.testing.assert_allclose(sums, gae_padded(reward, np.zeros(shape), mask, gamma=gamma, lam=1.0), atol=1e-12)

    full = gae_returns_whitened_padded(reward, value, mask, gamma=gamma, lam=lam, last_value_N=last)
    np.testing.assert_allclose(full.advantage.ravel(), slow.whitened(want, mask.ravel()), atol=1e-10)
    np.testing.assert_allclose(full.returns[mask], want[mask.ravel()] + value[mask], atol=1e-12)
    assert (full.advantage[~mask] == 0).all()
    assert (full.returns[~mask] == 0).all()


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 0.5])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_whitening_equals_its_definition(lengths, masked, epsilon, ddof):
    _, value, seg = ragged(lengths)
    reward = np.random.default_rng(4).standard_normal(len(seg))
    where = np.random.default_rng(5).random(len(seg)) < 0.7 if masked else None
    last = np.random.default_rng(6).standard_normal(len(lengths))
    a = slow.gae(reward, value, seg.tolist(), gamma=0.99, lam=0.9, last_value=last, mask=where)
    want = slow.whitened(a, where, ddof=ddof, epsilon=epsilon)
    got = gae_returns_whitened(
        reward, value, seg, gamma=0.99, lam=0.9, last_value=last, where=where, ddof=ddof, epsilon=epsilon
    )
    np.testing.assert_allclose(got.advantage, want, atol=1e-11)
    own = np.ones(len(seg), bool) if where is None else where
    np.testing.assert_allclose(got.returns[own], (np.array(a) + value)[own], atol=1e-12)


# --- leaks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
def test_a_value_that_is_not_finite_stays_in_its_segment_and_its_past(lengths, gamma, bad):
    """Blocks must not span two segments, and 0·inf inside a block must not make a NaN of a later position."""
    x, value, seg = ragged(lengths)
    clean = to_go(x, seg, gamma=gamma), gae(x, value, seg, gamma=gamma, lam=0.9)
    victim = int(np.argmax(lengths)) if max(lengths) > 1 else 3
    inside = np.flatnonzero(seg == victim)
    at = inside[len(inside) // 2]
    x[at] = bad
    for got, want in zip((to_go(x, seg, gamma=gamma), gae(x, value, seg, gamma=gamma, lam=0.9)), clean, strict=True):
        untouched = (seg != victim) | (np.arange(len(x)) > at)
        np.testing.assert_allclose(got[untouched], want[untouched], rtol=1e-9, atol=1e-12)
        assert not np.isfinite(got[at])
        if gamma >= 0.5:
            assert not np.isfinite(got[inside[inside < at]]).any()


def test_a_broken_row_does_not_leak_into_other_rows():
    rng = np.random.default_rng(0)
    reward, value = rng.standard_normal((5, 200)), rng.standard_normal((5, 200))
    mask = rng.random((5, 200)) < 0.7
    want = gae_padded(reward, value, mask, gamma=0.99, lam=0.95)
    reward[2, 100], mask[2, 100] = np.nan, True
    got = gae_padded(reward, value, mask, gamma=0.99, lam=0.95)
    others = [0, 1, 3, 4]
    np.testing.assert_allclose(got[others], want[others], rtol=0, atol=1e-12)
    assert np.isnan(got[2, 100])


def test_extreme_magnitudes_in_one_segment_do_not_cost_digits_in_the_next():
    """A flat cumulative sum with a correction at the boundary fails here by many orders of magnitude."""
    seg = np.repeat([0, 1, 2], 100)
    x = np.where(seg == 1, 1e300, 1e-300)
    got = to_go(x, seg, gamma=1.0)
    np.testing.assert_allclose(got[seg != 1], np.tile(np.arange(100, 0, -1) * 1e-300, 2), rtol=1e-12)


def test_constant_advantages_whiten_to_exact_zeros():
    """Z1 for the batch: 0.3 in float32 leaves a rounding residue that a division would blow up."""
    for dtype, lam in itertools.product((np.float32, np.float64), (0.0, 1.0)):
        reward = np.full(70, 0.3, dtype)
        got = gae_returns_whitened(reward, np.zeros(70, dtype), np.arange(70), gamma=0.99, lam=lam)
        assert got.advantage.tolist() == [0.0] * 70
        np.testing.assert_array_equal(got.returns, reward)


def test_a_mean_far_from_zero_costs_no_digits():
    rng = np.random.default_rng(0)
    reward = rng.standard_normal(5000)
    seg = np.arange(5000)
    near, far = (gae_returns_whitened(reward + b, np.zeros(5000), seg).advantage for b in (0.0, 1e6))
    np.testing.assert_allclose(near, far, atol=1e-8)
    long = seg // 500  # inside blocks as well
    value = np.full(5000, -1e7)
    a = slow.gae(reward, value, long.tolist(), gamma=1e-6)
    got = gae_returns_whitened(reward, value, long, gamma=1e-6).advantage
    np.testing.assert_allclose(got, slow.whitened(a), rtol=0, atol=1e-7)


# --- types, shapes, errors ---------------------------------------------------------------------------------


def test_inputs_may_be_read_only_strided_integer_or_lists_and_are_left_alone():
    reward, value, seg = ragged([40, 1, 17])
    want = gae(reward, value, seg, gamma=0.9, lam=0.8)
    frozen = [x.copy() for x in (reward, value, seg)]
    for x in frozen:
        x.setflags(write=False)
    np.testing.assert_array_equal(gae(*frozen, gamma=0.9, lam=0.8), want)
    strided = [np.repeat(x, 2)[::2] for x in (reward, value, seg)]
    np.testing.assert_array_equal(gae(*strided, gamma=0.9, lam=0.8), want)
    np.testing.assert_array_equal(gae(*(x.tolist() for x in frozen), gamma=0.9, lam=0.8), want)
    flipped = np.asfortranarray(np.tile(reward, (3, 1)))
    np.testing.assert_allclose(to_go_padded(flipped, flipped == flipped)[1], to_go(reward, seg * 0), atol=1e-9)
    assert to_go(np.array([1, 0, 2]), np.zeros(3, np.int32), gamma=0.5).tolist() == [1.5, 1.0, 2.0]


def test_sums_are_float64_and_the_whitened_pair_keeps_the_type_of_its_input():
    reward, value, seg = ragged([50, 30])
    assert gae(reward.astype("f4"), value.astype("f4"), seg).dtype == np.float64
    assert to_go(reward.astype("f4"), seg).dtype == np.float64
    single = gae_returns_whitened(reward.astype("f4"), value.astype("f4"), seg, lam=0.9)
    double = gae_returns_whitened(reward.astype("f4").astype("f8"), value.astype("f4"), seg, lam=0.9)
    assert (single.advantage.dtype, double.advantage.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(single.advantage, double.advantage, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(single.returns, double.returns, rtol=2e-7, atol=1e-4)


def test_empty_input_gives_empty_output():
    none = np.zeros(0)
    assert to_go(none, none.astype(int)).shape == (0,)
    assert gae(none, none, none.astype(int), last_value=none).shape == (0,)
    assert gae_returns_whitened(none, none, none.astype(int)).advantage.shape == (0,)
    for shape in ((0, 5), (3, 0)):
        x, mask = np.zeros(shape), np.zeros(shape, bool)
        assert gae_padded(x, x, mask).shape == shape
        assert to_go_padded(x, mask).shape == shape
        assert gae_returns_whitened_padded(x, x, mask, last_value_N=np.zeros(shape[0])).returns.shape == shape


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 31), (7, 32), (5, 100), (0, 4)])
def test_results_into_kept_memory_equal_fresh_ones_whatever_it_held(shape, dtype):
    rng = np.random.default_rng(0)
    reward, value = rng.standard_normal((2, *shape)).astype(dtype)
    kept = AdvantagesAndReturns(np.full(shape, np.nan, dtype), np.full(shape, np.inf, dtype))
    stop = rng.integers(0, shape[1] + 1, size=(shape[0], 1))
    holes = rng.random(shape) < 0.7
    for mask in (np.arange(shape[1]) < stop, holes, np.ones(shape, bool), np.zeros(shape, bool)):
        want = gae_returns_whitened_padded(reward, value, mask, gamma=0.99, lam=0.9)
        got = gae_returns_whitened_padded(reward, value, mask, gamma=0.99, lam=0.9, out=kept)
        assert got.advantage is kept.advantage
        assert got.returns is kept.returns
        for x, y in zip(got, want, strict=True):
            np.testing.assert_array_equal(x, y)
            assert (x[~mask] == 0).all()


def test_too_few_positions_to_whiten_give_zeros():
    one = np.array([3.0])
    assert gae_returns_whitened(one, one * 0, np.zeros(1, int)).advantage.tolist() == [0.0]
    assert gae_returns_whitened(one, one * 0, np.zeros(1, int)).returns.tolist() == [3.0]


def test_starts_of_runs():
    assert starts_of(np.array([5, 5, 2, 2, 2, 5])).tolist() == [0, 2, 5]
    assert starts_of(np.zeros(0, int)).tolist() == []
    assert starts_of(np.zeros(3, int)).tolist() == [0]


X3, SEG3 = np.ones(3), np.zeros(3, int)
X23, MASK23 = np.ones((2, 3)), np.ones((2, 3), bool)
FROZEN23 = np.ones((2, 3))
FROZEN23.setflags(write=False)


def into(*out):
    return lambda: gae_returns_whitened_padded(X23, X23 * 0, MASK23, out=out)


MISTAKES = {
    "out dtype": (
        into(np.ones((2, 3)), np.ones((2, 3), np.float32)),
        DataError,
        "gae_returns_whitened_padded: out.returns is float32 (2, 3), but the results are float64 (2, 3); make both "
        "with np.empty((2, 3), np.float64)",
    ),
    "out shape": (
        into(np.ones((3, 2)), np.ones((2, 3))),
        DataError,
        "gae_returns_whitened_padded: out.advantage is float64 (3, 2), but the results are float64 (2, 3); make both "
        "with np.empty((2, 3), np.float64)",
    ),
    "out kind": (
        into([[0.0] * 3] * 2, np.ones((2, 3))),
        DataError,
        "gae_returns_whitened_padded: out.advantage is list, but the results are float64 (2, 3); make both with "
        "np.empty((2, 3), np.float64)",
    ),
    "out gaps": (
        into(np.ones((2, 6))[:, ::2], np.ones((2, 3))),
        DataError,
        "gae_returns_whitened_padded: out.advantage is read-only or has gaps; give a whole array, not a view of a "
        "wider one",
    ),
    "out frozen": (
        into(np.ones((2, 3)), FROZEN23),
        DataError,
        "gae_returns_whitened_padded: out.returns is read-only or has gaps; give a whole array, not a view of a "
        "wider one",
    ),
    "out twice": (
        into(*[np.ones((2, 3))] * 2),
        DataError,
        "gae_returns_whitened_padded: out.advantage shares memory with out.returns, which would be overwritten; give "
        "memory apart",
    ),
    "out in place": (
        into(np.ones((2, 3)), X23),
        DataError,
        "gae_returns_whitened_padded: out.returns shares memory with reward_NL, which would be overwritten; give "
        "memory apart",
    ),
    "lengths": (
        lambda: to_go(X3, SEG3[:2]),
        DataError,
        "to_go: the arrays must be flat and equally long, not x_X (3,), seg_of_X (2,); give one entry per position",
    ),
    "gamma": (
        lambda: to_go(X3, SEG3, gamma=1.5),
        ConfigError,
        "to_go: gamma must lie in [0, 1], got 1.5; 1 means no decay",
    ),
    "lam": (
        lambda: gae(X3, X3, SEG3, lam=-0.1),
        ConfigError,
        "gae: lam must lie in [0, 1], got -0.1; 1 means no decay",
    ),
    "last_value": (
        lambda: gae(X3, X3, np.array([0, 0, 1]), last_value=X3),
        DataError,
        "gae: last_value has shape (3,), but there are 2 runs; give one value per run (0 where it terminated)",
    ),
    "rows": (
        lambda: gae_padded(np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 3), bool)),
        DataError,
        "gae_padded: the arrays must share one shape (rows, width), not reward_NL (2, 3), value_NL (2, 4), "
        "mask_NL (2, 3); pad them alike",
    ),
    "nan": (
        lambda: gae_returns_whitened(np.array([1, 2, np.nan]), X3, np.array([4, 7, 7])),
        DataError,
        "gae_returns_whitened: the advantage at position 0 of run 1 is not finite, so the batch cannot be "
        "whitened; look for NaN, inf or huge numbers in the rewards and values there",
    ),
}


@pytest.mark.parametrize(("call", "error", "sentence"), MISTAKES.values(), ids=MISTAKES.keys())
def test_errors_say_what_to_do(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence


# --- laws --------------------------------------------------------------------------------------------------


@st.composite
def ragged_batches(draw):
    lengths = draw(st.lists(st.integers(1, 70), min_size=1, max_size=8))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n = sum(lengths)
    reward, value = rng.normal(size=(2, n)) * draw(st.sampled_from([1e-3, 1.0, 1e3]))
    return reward, value, np.repeat(np.arange(len(lengths)), lengths), len(lengths)


@given(ragged_batches(), st.sampled_from([0.0, 0.3, 0.97, 1.0]))
@settings(max_examples=40)
def test_gae_without_critic_and_decay_is_the_return_to_go(batch, gamma):
    reward, _, seg, _ = batch
    np.testing.assert_allclose(
        gae(reward, np.zeros(len(seg)), seg, gamma=gamma, lam=1.0), to_go(reward, seg, gamma=gamma), rtol=1e-12
    )


@given(ragged_batches(), st.sampled_from([0.3, 0.97, 1.0]))
@settings(max_examples=40)
def test_monte_carlo_gae_is_return_minus_value(batch, gamma):
    reward, value, seg, _ = batch
    want = to_go(reward, seg, gamma=gamma) - value
    np.testing.assert_allclose(
        gae(reward, value, seg, gamma=gamma, lam=1.0), want, rtol=1e-9, atol=1e-9 * np.abs(want).max()
    )


@given(ragged_batches(), st.sampled_from([0.3, 1.0]), st.sampled_from([0.0, 0.9]), st.floats(0.125, 8))
@settings(max_examples=40)
def test_gae_is_linear_and_local_to_its_segment(batch, gamma, lam, factor):
    reward, value, seg, n = batch
    base = gae(reward, value, seg, gamma=gamma, lam=lam)
    scaled = gae(factor * reward, factor * value, seg, gamma=gamma, lam=lam)
    np.testing.assert_allclose(scaled, factor * base, rtol=1e-9, atol=1e-9 * np.abs(base).max())
    order = np.random.default_rng(0).permutation(n)
    position = np.concatenate([np.flatnonzero(seg == s) for s in order])
    moved = gae(reward[position], value[position], seg[position], gamma=gamma, lam=lam)
    np.testing.assert_allclose(moved, base[position], rtol=1e-12, atol=1e-12 * np.abs(base).max())


@given(ragged_batches(), st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 0.9, 1.0]))
@settings(max_examples=40)
def test_padding_changes_nothing(batch, gamma, lam):
    reward, value, seg, n = batch
    width = int(np.bincount(seg).max()) + 3
    mask = np.arange(width) < np.bincount(seg)[:, None]
    padded_reward, padded_value = np.full((2, n, width), np.nan)
    padded_reward[mask], padded_value[mask] = reward, value
    packed = gae_returns_whitened(reward, value, seg, gamma=gamma, lam=lam)
    padded = gae_returns_whitened_padded(padded_reward, padded_value, mask, gamma=gamma, lam=lam)
    np.testing.assert_allclose(padded.returns[mask], packed.returns, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(padded.advantage[mask], packed.advantage, rtol=1e-7, atol=1e-7)


@given(ragged_batches(), st.floats(0.01, 100), st.floats(-100, 100))
@settings(max_examples=40)
def test_whitened_advantages_have_mean_0_std_1_and_forget_the_unit(batch, factor, shift):
    reward, _, seg, _ = batch
    each = np.arange(len(seg))  # one position per segment: the advantage is the reward
    got = gae_returns_whitened(reward, reward * 0, each).advantage
    moved = gae_returns_whitened(factor * reward + shift, reward * 0, each).advantage
    if len(seg) > 2:
        assert abs(got.mean()) < 1e-9
        assert got.std(ddof=1) == pytest.approx(1.0, abs=1e-9)
        np.testing.assert_allclose(moved, got, atol=1e-6 * (1 + abs(shift) / factor / reward.std()))


@pytest.mark.usefixtures("both_kernels")
@pytest.mark.parametrize("runs", [1, 7, 4097, 4098, 5000])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64])
def test_starts_of_runs_of_any_length_equal_a_walk(runs, dtype):
    rng = np.random.default_rng(runs)
    size = rng.integers(1, 90, size=runs)  # shorter and longer than the stretch that is looked at at once
    seg = np.repeat(np.arange(runs) % 3, size).astype(dtype)
    want = [0, *(i for i in range(1, len(seg)) if seg[i] != seg[i - 1])]
    assert starts_of(seg).tolist() == want
    assert starts_of(np.repeat(seg, 2)[::2]).tolist() == want  # not contiguous


@pytest.mark.usefixtures("both_kernels")
def test_results_do_not_hold_what_memory_held_before():
    """Results without a mask are written to memory that nobody cleared; every position has to be."""
    n = 4000
    seg = np.repeat(np.arange(3), [1500, 1, 2499])
    for _ in range(3):
        dirt = [np.full(n, np.nan) for _ in range(4)]
        del dirt
        assert np.isfinite(to_go(np.ones(n), seg)).all()
        assert np.isfinite(gae(np.ones(n), np.ones(n), seg, lam=0.0)).all()
        both = gae_returns_whitened(np.arange(n) * 1.0, np.ones(n), seg)
        assert np.isfinite(both.advantage).all()
        assert np.isfinite(both.returns).all()
        masked = gae_returns_whitened(np.arange(n) * 1.0, np.ones(n), seg, where=np.arange(n) % 2 == 0)
        assert not masked.advantage[1::2].any()
        assert not masked.returns[1::2].any()
        padded = to_go_padded(np.ones((4, 1000)), np.arange(4000).reshape(4, 1000) % 2 == 0)
        assert not padded[:, 1::2].any()


@pytest.mark.usefixtures("both_kernels")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(8))
def test_whitened_sums_to_go_are_advantages_over_a_critic_that_says_zero(seed, dtype):
    rng = np.random.default_rng(seed)
    seg = np.repeat(np.arange(9), rng.integers(1, 40, size=9))
    x = rng.standard_normal(len(seg)).astype(dtype)
    where = None if seed % 2 else rng.random(len(seg)) < 0.7
    how = {"gamma": [1.0, 0.9, 0.0][seed % 3], "where": where, "ddof": seed % 2, "epsilon": [0.0, 0.1][seed // 4]}
    got = to_go_whitened(x, seg, **how)
    want = gae_returns_whitened(x, np.zeros_like(x), seg, **how)
    np.testing.assert_allclose(got.advantage, want.advantage, atol=1e-6)
    np.testing.assert_allclose(got.returns, want.returns, atol=1e-6)
    if where is None:
        np.testing.assert_allclose(got.returns, to_go(x, seg, gamma=how["gamma"]), atol=1e-5)
    with pytest.raises(DataError, match="to_go_whitened: the arrays must be flat and equally long"):
        to_go_whitened(x[:-1], seg)
    with pytest.raises(ConfigError, match="to_go_whitened: gamma must lie in"):
        to_go_whitened(x, seg, gamma=2.0)
