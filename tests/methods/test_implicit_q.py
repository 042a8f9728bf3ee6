import math

import numpy as np
import pytest

from apportion.assign import assign
from apportion.errors import ConfigError, DataError
from apportion.units import by_step, by_token
from tests.make import random_units, units_of
from tests.plain import plain
from tests.token_tree import BETA, REWARD, rollouts, value


def test_worked_example():
    # V*("") .594619, V*(a) .716890, V*(b) .432420; each token's ratio is what it gained
    credit = assign("implicit_q", by_token(rollouts()), beta=BETA)
    want = [0.122272, 0.283110, 0.122272, -0.716890, -0.162199, -0.432420, -0.162199, 0.067580]
    np.testing.assert_allclose(credit.advantage_S, want, atol=1e-6)
    whole = assign("implicit_q", by_step(rollouts()), beta=BETA)  # the ratio of a step is the sum of its tokens'
    np.testing.assert_allclose(whole.advantage_S, [0.405381, -0.594619, -0.594619, -0.094619], atol=1e-6)


def test_it_is_the_true_advantage_of_the_optimal_policy():
    units = by_token(rollouts())
    texts = list(REWARD)
    truth, from_start, left = [], [], []
    for text in texts:
        states = [value(text[:t]) for t in range(3)]
        reward = [0.0, REWARD[text]]
        truth += [reward[t] + states[t + 1] - states[t] for t in range(2)]
        from_start += [states[1] - states[0], REWARD[text] - states[0]]
        left += [REWARD[text] - states[t] for t in range(2)]
    for form, want in (("advantage", truth), ("q", from_start), ("to_go", left)):
        np.testing.assert_allclose(assign("implicit_q", units, beta=BETA, form=form).advantage_S, want, atol=1e-12)


def slow(units, beta, form):
    for trajectory in units.batch:
        ratio = [beta * (sum(step.logp.tolist()) - sum(step.ref_logp.tolist())) for step in trajectory.steps]
        for s in range(len(ratio)):
            yield {"advantage": ratio[s], "q": sum(ratio[: s + 1]), "to_go": sum(ratio[s:])}[form]


@pytest.mark.parametrize("form", ["advantage", "q", "to_go"])
@pytest.mark.parametrize("seed", range(50))
def test_equals_the_slow_reference(seed, form):
    units = random_units(seed, forks=False)
    credit = assign("implicit_q", units, beta=0.3, form=form)
    known = [r.tokens != [] and sum(r.tokens) > 0 for r in plain(units.batch)]
    failed = [any(step.failed for step in t.steps) for t in units.batch]
    known_S = [known[n] and not failed[n] for n in units.traj_of_S]
    assert credit.known_S.tolist() == known_S
    want = [x if k else 0.0 for x, k in zip(slow(units, 0.3, form), known_S, strict=True)]
    np.testing.assert_allclose(credit.advantage_S, want, atol=1e-9)


def test_unscored_rollouts_have_credit():
    units = random_units(4, forks=False)
    assert (np.asarray(assign("implicit_q", units).known_S) & ~units.valid_S).any()


def test_the_forms_tell_of_one_sum():
    units = random_units(5, forks=False)
    a, q, g = (assign("implicit_q", units, form=form).advantage_S for form in ("advantage", "q", "to_go"))
    total = np.bincount(units.traj_of_S, weights=a)[units.traj_of_S]
    np.testing.assert_allclose(q + g - a, total, atol=1e-12)


def test_a_policy_that_is_its_reference_has_no_credit():
    batch = rollouts("logp", "ref_logp")
    same = by_token(rollouts("other", "ref_logp", logp="reference"))
    assert assign("implicit_q", same).advantage_S.tolist() == [0.0] * 8
    assert math.isclose(assign("implicit_q", by_token(batch), beta=0.0).advantage_S.sum(), 0.0)


def test_what_it_refuses():
    with pytest.raises(DataError, match="implicit_q reads logp_S"):
        assign("implicit_q", units_of([0], [1], [("A", 1)]))
    with pytest.raises(ConfigError, match="implicit_q: form is 'v'; give 'advantage' or 'q' or 'to_go'"):
        assign("implicit_q", random_units(1, forks=False), form="v")
