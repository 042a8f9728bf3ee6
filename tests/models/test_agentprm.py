"""AgentPRM: the paper's labels and losses by hand, promises that are learned, and where they end up."""

import numpy as np
import pytest
import torch

import apportion as ap
from apportion.errors import ConfigError, DataError
from apportion.models import AgentPRM, Backbone, Settings, load
from apportion.models.agentprm import _Promises
from apportion.models.labels import td_labels
from tests.methods.test_agentprm import M, rollouts
from tests.models.test_value_head import coin


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("lam", "want"),
    [(0.95, [0.9462, 0.975, 1.0, 0.0438, 0.025, 0.0]), (1.0, [1, 1, 1, 0, 0, 0]), (0.0, [0.4, 0.5, 1, 0.4, 0.5, 0])],
)
def test_the_worked_labels(lam, want):
    np.testing.assert_allclose(td_labels(np.array(M * 2), rollouts(), lam=lam), want, atol=5e-5)


@pytest.mark.parametrize(("lam", "gamma"), [(0.95, 1.0), (0.3, 0.9), (0.0, 0.5)])
def test_labels_are_the_advantages_of_the_paper_plus_the_value_before(lam, gamma):
    """delta and the sum of deltas, as the paper has them; M before the first step drops out."""
    units, promise = rollouts(), np.array(M * 2)
    got = td_labels(promise, units, lam=lam, gamma=gamma)
    for n, outcome in enumerate((1.0, 0.0)):
        m = [0.35, *M]
        delta = [gamma * m[t + 1] - m[t] for t in range(2)] + [outcome - m[2]]
        for t in range(3):
            advantage = sum((gamma * lam) ** (k - t) * delta[k] for k in range(t, 3))
            assert got[3 * n + t] == pytest.approx(advantage + m[t])


def loss_of(batch, promise, **how):
    """The loss of a model whose promises are given, per step."""
    model = AgentPRM(Backbone("small", vocabulary=12))
    task = _Promises(model, batch, Settings(held_out=0.0), "td", **{"gamma": 1.0, "lam": 0.95, "beta": 1.0, **how})
    model.forward = lambda found, items: (torch.as_tensor(np.asarray(promise, dtype=np.float32)), np.arange(len(found)))
    model.values_at = lambda *_: np.asarray(promise)
    task.begin(0)
    total, weight = task.loss(np.arange(len(task.steps)))
    return float(total), weight


@pytest.mark.parametrize(
    ("how", "want"),
    [
        ({"beta": 0.0, "progress_target": "labels"}, 0.10234 * 3),  # the worked L_Q is a mean over three steps
        ({"beta": 1.0, "progress_target": "labels"}, 0.10234 * 3 + 0.01785 * 2),  # L_A of steps 2 and 3
    ],
)
def test_the_worked_losses(how, want):
    batch = rollouts(outcomes=(1.0,)).batch
    total, weight = loss_of(batch, M, **how)
    assert weight == 3
    assert total == pytest.approx(want, abs=2e-4)


def test_with_the_advantage_as_target_progress_is_twice_the_promise_but_for_the_first_step():
    batch = rollouts(outcomes=(1.0,)).batch
    promise, _ = loss_of(batch, M, beta=0.0, progress_target="advantage")
    both, _ = loss_of(batch, M, beta=1.0, progress_target="advantage")
    first = 0.5 * (M[0] - 0.946250) ** 2
    assert both - promise == pytest.approx(2 * (promise - first), rel=1e-4)


@pytest.mark.parametrize("target", ["labels", "advantage"])
def test_the_loss_of_rollouts_that_are_read_together_is_the_sum_of_theirs(target):
    """Neighbours are steps of one rollout: the last of one and the first of the next are none."""
    model = AgentPRM(Backbone("small", vocabulary=12))
    with torch.no_grad():
        model.head.weight += 0.1
    batch, labels = coin(6, 0), np.random.default_rng(0).normal(size=18)
    task = _Promises(model, batch, Settings(held_out=0.0), labels, progress_target=target)
    task.begin(0)
    apart = [task.loss(np.array([k])) for k in (1, 4, 5)]
    together, weight = task.loss(np.array([1, 4, 5]))
    assert weight == sum(w for _, w in apart) == 9
    assert together.item() == pytest.approx(sum(x.item() for x, _ in apart), rel=1e-5)


@pytest.fixture(scope="module")
def fitted():
    torch.set_num_threads(1)
    return AgentPRM.fit(
        coin(160, 0), backbone=Backbone("small", vocabulary=12), epochs=15, lr=3e-3, batch_tokens=128, lam=1.0, beta=0.0
    )


def test_promises_are_learned_and_credited(fitted, tmp_path):
    batch = coin(40, 1)
    promise = fitted.promises(batch).reshape(-1, 3)
    outcome = batch.outcome_N
    assert np.abs(promise[:, 0] - 0.5).mean() < 0.2
    assert np.abs(promise[:, 1:] - outcome[:, None]).mean() < 0.15
    credit = ap.assign("agentprm", ap.by_step(batch), values=fitted)
    change = credit.advantage_S.reshape(-1, 3)[:, 1]
    assert (np.sign(change) == np.where(outcome > 0, 1, -1)).mean() > 0.95
    np.testing.assert_allclose(credit.units.reward_parts["promise"], fitted.predict(batch).reward_parts["promise"])
    fitted.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").promises(batch), fitted.promises(batch))
    assert fitted.measure(batch)["error"][0] < 0.2


def test_the_progress_term_pulls_neighbours_together(fitted):
    """With lam = 1 the labels of a rollout are equal, so the term's target is no change, and the truth is one of ½."""
    pulled = AgentPRM.fit(
        coin(160, 0), backbone=Backbone("small", vocabulary=12), epochs=15, lr=3e-3, batch_tokens=128, lam=1.0
    )
    change = [np.abs(np.diff(m.promises(coin(40, 1)).reshape(-1, 3)[:, :2])).mean() for m in (pulled, fitted)]
    assert change[0] < 0.8 * change[1]


def test_labels_can_be_given_and_unknown_ones_are_left_out():
    batch = coin(16, 0)
    labels = np.where(np.arange(48) % 3 == 1, np.nan, 0.7)
    model = AgentPRM.fit(batch, backbone=Backbone("small", vocabulary=12), labels=labels, epochs=12, lr=3e-3)
    assert np.abs(model.promises(batch) - 0.7).mean() < 0.15
    with pytest.raises(DataError, match="2 labels for 48 steps"):
        AgentPRM.fit(batch, labels=np.zeros(2), epochs=1)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"labels": "mc"}, "labels is 'mc'; give 'td', or one number for each step"),
        ({"progress_target": "q"}, "progress_target is 'q'; give one of labels, advantage"),
        ({"beta": -1.0}, "beta is -1.0; give a number from 0 up"),
        ({"lam": 1.5, "epochs": 1}, "lam is 1.5; give a number from 0 to 1"),
    ],
)
def test_what_cannot_be_used_is_said(given, says):
    with pytest.raises(ConfigError, match=says):
        AgentPRM.fit(coin(8, 0), **given)
