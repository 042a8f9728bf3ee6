import numpy as np
import pytest

from apportion.bench.exact import exact, improve, sample, uniform
from apportion.bench.tasks import task
from apportion.bench.truth import CONTROLS, METRICS, measure, runnable, to_batch
from apportion.methods import methods
from apportion.units import by_step


@pytest.fixture(scope="module")
def small():
    table = task("keydoor", n=2, apples=1).table
    return table, improve(table, uniform(table), 1.0)


@pytest.fixture(scope="module")
def measured(small):
    return measure(*small, batches=12, groups=4, n=6, seed=3)


def test_every_registered_method_has_a_row_or_a_reason(measured):
    listed = {spec.name for spec in methods() if spec.kind == "method"}
    assert set(runnable()) <= listed
    assert set(measured.rows) | set(measured.skipped) == set(runnable()) | set(CONTROLS)
    assert all(set(row) == set(METRICS) for row in measured.rows.values())
    assert measured.skipped["vineppo"] == "vineppo asks a policy"


def test_the_controls_bound_the_methods(measured):
    rows = measured.rows
    assert rows["exact advantage"]["corr"] == pytest.approx((1, 1, 1))
    assert rows["exact advantage"]["sign"] == (1, 1, 1)
    best = rows["exact advantage"]["grad_cos"]
    assert all(row["grad_cos"][0] <= best[2] for row in rows.values())
    assert rows["random"]["grad_cos"][1] < 0 < rows["random"]["grad_cos"][2]
    assert rows["dr_grpo"]["grad_cos"][1] > rows["random"]["grad_cos"][2]


def test_intervals_hold_their_value_and_shrink_with_batches(small, measured):
    for row in measured.rows.values():
        for value, low, high in row.values():
            assert low <= value <= high
    more = measure(*small, methods=["dr_grpo"], batches=48, groups=4, n=6, seed=3)
    width = lambda m: np.subtract(*m.rows["dr_grpo"]["grad_cos"][:0:-1])  # noqa: E731
    assert width(more) < 0.75 * width(measured)


def test_equal_seeds_give_equal_numbers_and_others_do_not(small, measured):
    again = measure(*small, batches=12, groups=4, n=6, seed=3)
    other = measure(*small, batches=12, groups=4, n=6, seed=4)
    assert again.rows == measured.rows
    assert other.rows["gigpo"] != measured.rows["gigpo"]


def test_the_rollouts_as_the_library_sees_them(small):
    table, policy = small
    truth = exact(table, policy)
    rollouts = sample(table, policy, groups=3, n=4, rng=np.random.default_rng(0))
    batch = to_batch(truth, rollouts)
    units = by_step(batch)
    np.testing.assert_allclose(units.reward_S, rollouts.reward_S)
    np.testing.assert_allclose(batch.outcome_N, rollouts.return_N)
    np.testing.assert_array_equal(units.group_of_N, rollouts.group_of_N)
    np.testing.assert_allclose(units.value_S, truth.value_HX[rollouts.time_S, rollouts.state_S])
    # hidden apples: two states may share a text, and then they are one state to the library
    assert units.state_S.tolist() == [table.text(x, t) for x, t in zip(rollouts.state_S, rollouts.time_S, strict=True)]


def test_gae_with_the_exact_values_and_lam_0_is_unbiased(small):
    # E[r + V(s') - V(s) | s, a] = A(s, a): so the averaged gradient must point where the exact one does
    rows = measure(*small, methods=["gae(lam=0.0)"], batches=60, groups=4, n=6, seed=1).rows
    assert rows["gae(lam=0.0)"]["grad_cos_mean"][0] > 0.98


def test_a_method_that_cannot_run_is_listed_with_its_reason(small, monkeypatch):
    from apportion.methods import registry

    monkeypatch.setattr(registry, "_SPECS", dict(registry._SPECS))

    @registry.register("thirsty/method", family="monte-carlo", reads=("entropy_S",), source="this test")
    def method(units):
        raise AssertionError("never reached")

    measured = measure(*small, batches=1, groups=2, n=2)
    assert "thirsty/method" not in measured.rows
    assert "entropies" in measured.skipped["thirsty/method"]
