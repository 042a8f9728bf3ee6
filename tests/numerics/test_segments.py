"""Statistics by segment id: worked numbers, a slow reference over every option, laws, and exact zeros."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.errors import ConfigError, DataError
from apportion.numerics import centre, seg_count, seg_mean, seg_std, seg_sum, spread_floor
from tests.numerics import slow

pytestmark = pytest.mark.usefixtures("both_kernels")

ONE_GROUP = np.zeros(4, int)
SCORES = np.array([1.0, 0, 0, 0])


SPECIFIED = {  # options, advantages of the scores 1, 0, 0, 0, digits given
    "dr_grpo": ({}, [0.75, -0.25, -0.25, -0.25], 1e-12),
    "grpo": ({"scale": "std"}, [1.5, -0.5, -0.5, -0.5], 1e-12),
    "grpo verl": ({"scale": "std", "epsilon": 1e-6}, [1.499997, -0.499999, -0.499999, -0.499999], 5e-7),
    "grpo population": (
        {"scale": "std", "ddof": 0, "epsilon": 1e-8},
        [1.732051, -0.577350, -0.577350, -0.577350],
        5e-7,
    ),
    "grpo trl": ({"scale": "std", "epsilon": 1e-4}, [1.4997, -0.4999, -0.4999, -0.4999], 5e-5),
    "rloo": ({"leave_one_out": True}, [1, -1 / 3, -1 / 3, -1 / 3], 1e-12),
}


@pytest.mark.parametrize(("options", "want", "digits"), SPECIFIED.values(), ids=SPECIFIED.keys())
def test_group_advantages_of_the_specification(options, want, digits):
    np.testing.assert_allclose(centre(SCORES, ONE_GROUP, **options), want, rtol=0, atol=digits)


def test_returns_of_an_anchor_state():
    """The worked table of GiGPO: returns 0.9, 0, 0, 0.6561 of four visits to one state."""
    x = np.array([0.9, 0, 0, 0.6561])
    population = centre(x, ONE_GROUP, scale="std", ddof=0)
    sample = centre(x, ONE_GROUP, scale="std", ddof=1)
    np.testing.assert_allclose(population, [1.28, -0.98, -0.98, 0.67], atol=0.005)
    np.testing.assert_allclose(sample, [1.11, -0.85, -0.85, 0.58], atol=0.005)


@pytest.mark.parametrize("value", [0.3, 0.35, 1 / 3, 1e-30, 1e30, 0.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", ["none", "std"])
@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6])
def test_equal_rewards_give_exact_zeros(value, dtype, scale, leave_one_out, epsilon):
    """Z1: tiny residues of the mean must not be divided by tiny spreads."""
    x, seg = np.full(7, value, dtype), np.zeros(7, int)
    got = centre(x, seg, scale=scale, leave_one_out=leave_one_out, epsilon=epsilon)
    assert got.tolist() == [0.0] * 7
    assert not np.signbit(got).any()
    assert seg_std(x, seg).tolist() == [0.0]


def test_zeros_stay_positive_zeros():
    assert not np.signbit(centre(np.array([-1.0, 5.0]), np.array([0, 1]))).any()


def test_the_odd_one_out_is_not_divided_by_the_zero_spread_of_the_others():
    """Z3: with the std of the others, the single different sample would get a million."""
    got = centre(SCORES, ONE_GROUP, scale="std", leave_one_out=True)
    np.testing.assert_allclose(got, [1.0, -0.57735, -0.57735, -0.57735], atol=1e-5)


def test_whether_a_group_has_spread_is_a_matter_of_that_group():
    """Z6."""
    assert seg_std(np.array([1.0, 1, 1, 0]), np.array([0, 0, 1, 1])).tolist() == [0.0, pytest.approx(0.5**0.5)]
    got = centre(np.array([1.0, 1, 1, 0]), np.array([0, 0, 1, 1]), scale="std")
    np.testing.assert_allclose(got, [0, 0, 0.5**0.5, -(0.5**0.5)])


def test_members_outside_the_statistics_move_nothing():
    """Scores 1, 0, 0 and a rejected −1: the rejected one must not raise its siblings."""
    where = np.array([True, True, True, False])
    got = centre(np.array([1.0, 0, 0, -1]), ONE_GROUP, where=where)
    np.testing.assert_allclose(got, [2 / 3, -1 / 3, -1 / 3, 0])


def sample(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    seg = rng.integers(0, 9, size=60)
    seg[:4] = [10, 12, 12, 13]  # 9 and 11 stay empty, 10 and 13 hold one
    x = rng.standard_normal(60) * 10.0 ** rng.integers(-4, 5, size=14)[seg]
    x[seg == 3] = 0.1
    x[seg == 4] = np.where(np.arange(60) % 4 == 0, 7.0, 0.1)[seg == 4]
    return x, seg, rng.random(60) < 0.7


@pytest.mark.parametrize("options", [
    {"scale": scale, "ddof": ddof, "leave_one_out": loo, "epsilon": epsilon}
    for scale, ddof, loo, epsilon in itertools.product(("none", "std"), (0, 1), (False, True), (0.0, 1e-4))
], ids=str)  # fmt: skip
@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_centre_equals_the_slow_reference(options, some, seed):
    x, seg, where = sample(seed)
    chosen = where if some else None
    want = slow.centre(x.tolist(), seg.tolist(), where=chosen, **options)
    if some:
        x[~where] = np.nan
    np.testing.assert_allclose(centre(x, seg, where=chosen, **options), want, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("n", [None, 20])
@pytest.mark.parametrize("seed", range(3))
def test_count_sum_mean_and_std_equal_the_slow_reference(ddof, some, n, seed):
    x, seg, where = sample(seed)
    chosen = where if some else None
    if some:
        x[~where] = np.inf
    groups = [x[i].tolist() for i in slow.members(seg.tolist(), chosen, n or 14)]
    assert seg_count(seg, where=chosen, n=n).tolist() == [len(g) for g in groups]
    np.testing.assert_allclose(seg_sum(x, seg, where=chosen, n=n), [sum(g) for g in groups], atol=1e-9)
    means = [sum(g) / len(g) if g else 0.0 for g in groups]
    np.testing.assert_allclose(seg_mean(x, seg, where=chosen, n=n), means, atol=1e-9)
    stds = [slow.std(g, ddof) for g in groups]
    np.testing.assert_allclose(seg_std(x, seg, ddof=ddof, where=chosen, n=n), stds, rtol=1e-9)


def test_spread_floor_is_relative_to_the_largest_magnitude():
    got = spread_floor(np.array([3.0, -5, 0]), np.array([0, 0, 2]), n=3)
    np.testing.assert_allclose(got, [5e-9, 0, 0])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_not_finite_shows_in_its_segment_and_in_no_other(bad):
    x, seg, _ = sample(0)
    clean = {key: centre(x, seg, **options) for key, options in OPTIONS.items()}
    spread = seg_std(x, seg)
    at = int(np.flatnonzero(seg == 5)[0])
    x[at] = bad
    for key, options in OPTIONS.items():
        got = centre(x, seg, **options)
        np.testing.assert_array_equal(got[seg != 5], clean[key][seg != 5])
        assert np.isnan(got[at]), key
    got = seg_std(x, seg)
    assert np.isnan(got[5])
    np.testing.assert_array_equal(np.delete(got, 5), np.delete(spread, 5))


OPTIONS = {
    "plain": {},
    "std": {"scale": "std"},
    "loo": {"leave_one_out": True},
    "loo std": {"leave_one_out": True, "scale": "std"},
}


def test_large_offsets_cost_no_digits():
    rng = np.random.default_rng(0)
    x, seg = rng.standard_normal(400), np.arange(400) % 8
    np.testing.assert_allclose(seg_std(x + 1e6, seg), seg_std(x, seg), rtol=1e-9)


def test_empty_input():
    none, ids = np.zeros(0), np.zeros(0, int)
    assert centre(none, ids).shape == (0,)
    assert seg_std(none, ids, n=3).tolist() == [0, 0, 0]
    assert seg_mean(none, ids).shape == (0,)
    assert seg_count(ids, n=2).tolist() == [0, 0]
    assert seg_sum(none, ids, where=np.zeros(0, bool), n=1).tolist() == [0]


def test_inputs_may_be_read_only_lists_or_narrow_and_are_left_alone():
    x, seg, where = sample(1)
    want = centre(x, seg, scale="std", where=where)
    frozen = [a.copy() for a in (x, seg, where)]
    for a in frozen:
        a.setflags(write=False)
    np.testing.assert_array_equal(centre(frozen[0], frozen[1], scale="std", where=frozen[2]), want)
    np.testing.assert_array_equal(centre(x.tolist(), seg.tolist(), scale="std", where=where.tolist()), want)
    np.testing.assert_array_equal(centre(x, seg.astype(np.int16), scale="std", where=where), want)
    assert centre(np.array([1, 0]), np.array([0, 0])).tolist() == [0.5, -0.5]


MISTAKES = {
    "scale": (
        lambda: centre(SCORES, ONE_GROUP, scale="batch"),
        ConfigError,
        "centre: scale must be 'none' or 'std', got 'batch'",
    ),
    "negative": (
        lambda: centre(SCORES, np.array([0, -1, 0, 0])),
        DataError,
        "segment ids must not be negative, got -1; select with `where` instead",
    ),
    "n": (
        lambda: seg_sum(SCORES, np.array([0, 4, 0, 0]), n=4),
        DataError,
        "segment id 4 does not fit n=4 segments; raise n or leave it out",
    ),
    "lengths": (
        lambda: seg_std(SCORES[:3], ONE_GROUP),
        DataError,
        "3 values, 4 segment ids do not fit each other; give one of each per position",
    ),
    "flags": (
        lambda: seg_mean(SCORES, ONE_GROUP, where=np.ones(2, bool)),
        DataError,
        "4 values, 4 segment ids and 2 flags do not fit each other; give one of each per position",
    ),
}


@pytest.mark.parametrize(("call", "error", "sentence"), MISTAKES.values(), ids=MISTAKES.keys())
def test_errors_say_what_to_do(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence


# --- laws --------------------------------------------------------------------------------------------------

OPTION_SETS = st.sampled_from(list(OPTIONS.values()))


@st.composite
def grouped(draw):
    n = draw(st.integers(1, 60))
    seg = np.array(draw(st.lists(st.integers(0, 6), min_size=n, max_size=n)))
    levels = draw(st.sampled_from([(0.0, 1.0), (0.0, 0.5, 1.0, 2.0), tuple(np.linspace(-3, 3, 50))]))
    return np.array(draw(st.lists(st.sampled_from(levels), min_size=n, max_size=n))), seg


@given(grouped(), OPTION_SETS, st.floats(-1000, 1000))
@settings(max_examples=60)
def test_a_constant_added_to_a_group_changes_nothing(data, options, shift):
    x, seg = data
    moved = centre(x + shift * (seg + 1), seg, **options)
    np.testing.assert_allclose(moved, centre(x, seg, **options), atol=1e-6)


@given(grouped(), OPTION_SETS, st.floats(1e-6, 1e6))
@settings(max_examples=60)
def test_units_cancel_with_std_and_pass_through_without(data, options, factor):
    x, seg = data
    if options == OPTIONS["loo std"]:  # unscaled where the others have no spread, so the unit shows there
        return
    base = centre(x, seg, **options)
    want = base if options.get("scale") else factor * base
    np.testing.assert_allclose(centre(factor * x, seg, **options), want, rtol=1e-7, atol=1e-9 * factor)


@given(grouped(), OPTION_SETS)
@settings(max_examples=60)
def test_order_and_names_of_segments_do_not_matter(data, options):
    x, seg = data
    base = centre(x, seg, **options)
    order = np.random.default_rng(len(x)).permutation(len(x))
    np.testing.assert_allclose(centre(x[order], seg[order], **options), base[order], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(centre(x, (seg * 3 + 1) % 7, **options), base, rtol=1e-9, atol=1e-12)


@given(grouped(), st.sampled_from([OPTIONS["plain"], OPTIONS["std"], OPTIONS["loo"]]))
@settings(max_examples=60)
def test_each_segment_sums_to_zero(data, options):
    x, seg = data
    np.testing.assert_allclose(seg_sum(centre(x, seg, **options), seg), 0, atol=1e-9)


@given(grouped())
@settings(max_examples=60)
def test_scaled_segments_have_std_one_or_zero(data):
    x, seg = data
    got = seg_std(centre(x, seg, scale="std"), seg)
    assert all(s == 0 or abs(s - 1) < 1e-9 for s in got)
    assert (got == 0).tolist() == (seg_std(x, seg) == 0).tolist()
