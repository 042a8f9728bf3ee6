"""The losses on tensors: the values of the reference, and its gradients by finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from apportion import losses  # noqa: E402
from apportion.errors import ConfigError  # noqa: E402
from apportion.losses import AGGREGATIONS, LOSSES, Tokens  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::apportion.losses.FineCreditLost")  # see test_pairing.py

on_tensors = losses.backend("torch")

OPTIONS = {
    "ppo": [{}, {"eps_high": 0.28}, {"dual_clip": 1.3}, {"delta": 1.3}],
    "gspo": [{}, {"eps_low": 0.1, "eps_high": 0.1}, {"eps_low": 0.1, "eps_high": 0.3, "delta": 1.05}],
    "gspo_token": [{}, {"eps_low": 0.1, "eps_high": 0.1}, {"eps_low": 0.1, "eps_high": 0.3, "delta": 1.05}],
    "cispo": [{}, {"weight_min": 0.8, "weight_max": 1.2}],
    "reinforce": [{}],
}
CASES = [(name, options) for name in LOSSES for options in OPTIONS[name]]


def columns(seed, spread=0.4):
    rng = np.random.default_rng(seed)
    row = np.repeat(np.arange(6), [1, 4, 2, 6, 3, 4])
    logp = -rng.exponential(size=20)
    weight = rng.integers(0, 2, 20).astype(float)
    return Tokens(logp, rng.normal(size=20), weight, row, logp - spread * rng.normal(size=20))


def as_tensors(given):
    logp, advantage, weight, row, old = given
    logp = torch.tensor(logp, dtype=torch.float64, requires_grad=True)
    old = None if old is None else torch.tensor(old)
    return Tokens(logp, torch.tensor(advantage), torch.tensor(weight), torch.tensor(row), old)


def test_both_modules_have_the_same_names():
    assert list(on_tensors.LOSSES) == list(LOSSES)
    assert on_tensors.AGGREGATIONS == AGGREGATIONS
    assert all(hasattr(losses, name) for name in on_tensors.__all__)


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_value_and_gradient_are_those_of_the_reference(name, options, mode):
    for seed in range(3):
        given = columns(seed)
        tensors = as_tensors(given)
        loss_T = on_tensors.LOSSES[name](tensors, **options)
        assert_allclose(loss_T.detach().numpy(), LOSSES[name](given, **options), atol=1e-12)
        grouped = {"length": 7, "group_of_T": tensors.row_of_T // 3}
        loss = on_tensors.aggregate(loss_T, tensors.weight_T, tensors.row_of_T, mode, **grouped)

        def total(logp, held=given.logp_T, given=given):
            held = {"held_T": held} if name in ("gspo_token", "cispo") else {}
            moved = LOSSES[name](given._replace(logp_T=logp), **options, **held)
            return losses.aggregate(
                moved, given.weight_T, given.row_of_T, mode, length=7, group_of_T=given.row_of_T // 3
            )

        assert loss.item() == pytest.approx(total(given.logp_T), abs=1e-12)
        loss.backward()
        unit = np.eye(20) * 1e-6
        slope = [(total(given.logp_T + e) - total(given.logp_T - e)) / 2e-6 for e in unit]
        assert_allclose(tensors.logp_T.grad.numpy(), slope, atol=1e-7)


@pytest.mark.parametrize("name", LOSSES)
def test_no_gradient_and_no_nan_from_what_weighs_nothing(name):
    given = columns(5)
    for column in (given.logp_T, given.advantage_T, given.old_logp_T):
        column[given.weight_T == 0] = np.nan
    tensors = as_tensors(given)
    loss_T = on_tensors.LOSSES[name](tensors)
    for mode in AGGREGATIONS:
        row = tensors.row_of_T
        loss = on_tensors.aggregate(loss_T, tensors.weight_T, row, mode, length=3, group_of_T=row)
        (slope,) = torch.autograd.grad(loss, tensors.logp_T, retain_graph=True)
        assert torch.isfinite(loss)
        assert torch.isfinite(slope).all()
        assert (slope[tensors.weight_T == 0] == 0).all()


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_denominators_are_those_of_the_reference(mode):
    given = columns(8)
    weight, row = given.weight_T / 2, given.row_of_T
    want = losses.denominator(weight, row, mode, group_of_T=row // 3)
    got = on_tensors.denominator(torch.tensor(weight), torch.tensor(row), mode, group_of_T=torch.tensor(row // 3))
    assert float(got) == pytest.approx(want)
    loss = np.linspace(-1, 1, 20)
    tensors = (torch.tensor(x) for x in (loss, weight, row))
    half = on_tensors.aggregate(*tensors, mode, length=5, denominator=got * 2, group_of_T=torch.tensor(row // 3))
    assert 2 * half.item() == pytest.approx(losses.aggregate(loss, weight, row, mode, length=5, group_of_T=row // 3))
    with pytest.raises(ConfigError, match="needs group_of_T, the group of each token"):
        on_tensors.denominator(torch.tensor(weight), torch.tensor(row), "group-mean-token-mean")


@pytest.mark.parametrize("old", [None, np.arange(6.0).reshape(2, 3) - 9])
def test_rectangles_are_those_of_the_reference(old):
    logp, advantage, weight = -np.arange(6.0).reshape(2, 3), np.ones((2, 3)) * [[1], [2]], np.tri(2, 3, 1)
    want = losses.from_rows(logp, advantage, weight, old)
    tensors = [torch.tensor(x) for x in (logp, advantage, weight)]
    got = on_tensors.from_rows(*tensors, None if old is None else torch.tensor(old))
    for name in Tokens._fields:
        mine, theirs = getattr(got, name), getattr(want, name)
        assert (mine is None) == (theirs is None)
        if mine is not None:
            assert mine.tolist() == theirs.tolist()


def test_a_nan_that_counts_is_not_hidden():
    given = columns(5)
    given.logp_T[np.flatnonzero(given.weight_T)[0]] = np.nan
    assert torch.isnan(on_tensors.ppo(as_tensors(given))).any()


@pytest.mark.parametrize("name", LOSSES)
def test_without_old_log_probabilities_the_ratio_is_one(name):
    given = columns(6)
    absent, same = as_tensors(given._replace(old_logp_T=None)), as_tensors(given._replace(old_logp_T=given.logp_T))
    slopes = []
    for tensors in (absent, same):
        loss = on_tensors.LOSSES[name](tensors).sum()
        slopes.append(torch.autograd.grad(loss, tensors.logp_T)[0])
    if name == "gspo":  # the row's ratio is a function of old only through the difference
        return
    assert_allclose(slopes[0].numpy(), slopes[1].numpy(), atol=1e-12)


def test_gspo_token_carries_the_credit_of_each_token():
    logp = torch.tensor([-1.0, -2.0, -0.5], requires_grad=True)
    advantage, ones, row = torch.tensor([2.0, 1.0, -1.0]), torch.ones(3), torch.zeros(3, dtype=torch.long)
    for name, want in (("gspo", [2 / 9] * 3), ("gspo_token", [2 / 3, 1 / 3, -1 / 3])):
        given = Tokens(logp, advantage, ones, row, logp.detach())
        loss = on_tensors.aggregate(on_tensors.LOSSES[name](given), ones, row)
        (slope,) = torch.autograd.grad(loss, logp)
        assert_allclose(-slope.numpy(), want, atol=1e-6)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl(estimator):
    d = np.linspace(-2, 2, 9)
    got = on_tensors.kl(torch.tensor(d), torch.zeros(9, dtype=torch.float64), estimator)
    assert_allclose(got.numpy(), losses.kl(d, 0 * d, estimator))


def test_single_precision_stays_close():
    given = columns(7)
    logp, advantage, weight, row, old = as_tensors(given)
    single = Tokens(logp.detach().float(), advantage.float(), weight.float(), row, old.float())
    for name in LOSSES:
        loss = on_tensors.LOSSES[name](single)
        assert loss.dtype == torch.float32
        assert_allclose(loss.numpy(), LOSSES[name](given), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", AGGREGATIONS)
@pytest.mark.parametrize("denominator", [None, 0.25])
def test_small_weights_and_denominators_are_not_taken_for_none(mode, denominator):
    weight, row, group = np.array([0.1, 0.2, 0.0, 0.05]), np.array([0, 0, 1, 1]), np.array([0, 0, 0, 0])
    how = {"length": 0.5, "denominator": denominator}
    want = losses.shares(weight, row, mode, group_of_T=group, **how)
    got = on_tensors.shares(torch.tensor(weight), torch.tensor(row), mode, group_of_T=torch.tensor(group), **how)
    assert (want[weight > 0] > 0).all()
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
