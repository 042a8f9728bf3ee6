"""Implicit rewards: the losses by hand, planted decisive tokens found, and the log-ratios that methods read."""

import math

import numpy as np
import pytest
import torch

import apportion as ap
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.models import Backbone, ImplicitReward, Settings, TokenModel, load
from apportion.models.implicit_task import Outcomes
from apportion.models.metrics import classified
from apportion.units import by_token

VOCABULARY = 14


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def planted(n, seed):
    """Token 10 or 11 somewhere in an otherwise random rollout of two steps decides the outcome."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        bit, where = int(rng.integers(2)), int(rng.integers(8))
        tokens = rng.integers(2, 10, size=8)
        tokens[where] = 10 + bit
        steps = [Step(prompt_ids=[0, 1], ids=tokens[:4]), Step(prompt_ids=[1], ids=tokens[4:])]
        out.append(Trajectory(steps, group=f"g{i // 8}", outcome=float(bit)))
    return Batch.from_trajectories(out)


def plain_logp(trunk, rollout):
    """Log-probabilities of the sampled tokens by one pass over the whole rollout."""
    ids, own = [trunk.start], [False]
    for step in rollout.steps:
        ids += [*step.prompt_ids.tolist(), *step.ids.tolist()]
        own += [False] * len(step.prompt_ids) + [True] * len(step.ids)
    with torch.no_grad():
        logits = trunk.trunk(torch.tensor([ids])).logits[0]
    logp = torch.log_softmax(logits, -1)
    return np.array([float(logp[k - 1, ids[k]]) for k in range(1, len(ids)) if own[k]])


def test_log_probabilities_are_those_of_a_plain_pass():
    model = ImplicitReward(TokenModel("small", vocabulary=VOCABULARY))
    torch.nn.init.normal_(model.backbone.trunk.lm_head.weight, std=0.3)
    batch = planted(5, 0)
    got = model.predict(batch)
    for n, rollout in enumerate(batch):
        mine = got.sampled_T & (got.traj_of_T == n)
        np.testing.assert_allclose(got.columns_T["prm_logp"][mine], plain_logp(model.backbone, rollout), atol=1e-5)
        np.testing.assert_allclose(got.ref_logp_T[mine], plain_logp(model.start, rollout), atol=1e-5)


@pytest.mark.parametrize("score", ["sum", "mean", "step_mean"])
@pytest.mark.parametrize("loss", ["ce", "dpo"])
def test_the_losses_by_hand(loss, score):
    beta, batch = 0.3, planted(16, 3)
    model = ImplicitReward(TokenModel("small", vocabulary=VOCABULARY), score=score)
    torch.nn.init.normal_(model.backbone.trunk.transformer.wte.weight, std=0.3)
    task = Outcomes(model, batch, Settings(held_out=0.0), loss=loss, beta=beta)
    scores = []
    for rollout in batch:
        ratio = plain_logp(model.backbone, rollout) - plain_logp(model.start, rollout)
        scores.append(beta * {"sum": ratio.sum(), "mean": ratio.mean(), "step_mean": ratio.sum() / 2}[score])
    want = pairs = 0.0
    for i, a in enumerate(batch):
        if loss == "ce":
            want += math.log1p(math.exp(-scores[i] if a.outcome else scores[i]))
            pairs += 1
            continue
        for j, b in enumerate(batch):
            if a.group == b.group and a.outcome > b.outcome:
                want += math.log1p(math.exp(scores[j] - scores[i]))
                pairs += 1
    got, weight = task.loss(np.arange(len(task.items)))
    assert weight == pairs
    assert float(got.detach()) == pytest.approx(want, rel=1e-4)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    torch.set_num_threads(1)
    return ImplicitReward.fit(
        planted(256, 0), backbone=TokenModel("small", vocabulary=VOCABULARY), beta=0.3, epochs=6, lr=3e-3,
        batch_tokens=512, out=tmp_path_factory.mktemp("model") / "m", loss="dpo",
    )  # fmt: skip


def test_it_finds_the_token_that_decided(fitted):
    told = fitted.measure(planted(64, 1))
    assert told["auc"][1] > 0.9
    batch = fitted.predict(planted(64, 1))
    ratio = np.where(batch.sampled_T, batch.columns_T["prm_logp"] - batch.ref_logp_T, 0.0)
    decides = np.isin(batch.ids_T, [10, 11]) & batch.sampled_T
    right = np.sign(ratio[decides]) == np.where(batch.ids_T[decides] == 11, 1, -1)
    assert right.mean() > 0.9
    others = batch.sampled_T & ~decides
    assert np.abs(ratio[decides]).mean() > 2 * np.abs(ratio[others]).mean()
    credit = ap.assign("prime", by_token(planted(64, 1)), values=fitted, process_weight=1.0, outcome_weight=0.0)
    assert np.isfinite(credit.advantage_S).all()


def test_a_saved_model_predicts_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "m")
    again, batch = load(tmp_path / "m"), planted(4, 2)
    a, b = again.predict(batch), fitted.predict(batch)
    np.testing.assert_array_equal(a.columns_T["prm_logp"], b.columns_T["prm_logp"])
    np.testing.assert_array_equal(a.ref_logp_T, b.ref_logp_T)


def test_measures_use_the_score_and_the_success_of_the_fit(tmp_path):
    """Lengths differ, so sums and means may order rollouts differently; and outcomes above 2 are successes."""
    batch = Batch.from_trajectories(
        Trajectory(t.steps[: 1 + n % 2], group=t.group, outcome=2 * t.outcome + n % 2)
        for n, t in enumerate(planted(24, 5))
    )
    model = ImplicitReward(TokenModel("small", vocabulary=VOCABULARY), score="mean", success=2.0)
    torch.nn.init.normal_(model.backbone.trunk.transformer.wte.weight, std=0.3)
    ratio = [plain_logp(model.backbone, t) - plain_logp(model.start, t) for t in batch]
    label = np.array([t.outcome > 2 for t in batch])
    want = classified(np.array([r.mean() for r in ratio]), label)
    assert model.measure(batch)["auc"][0] == pytest.approx(want["auc"][0])
    assert classified(np.array([r.sum() for r in ratio]), label)["auc"][0] != want["auc"][0]
    model.save(tmp_path)
    again = load(tmp_path)
    assert (again.score, again.success) == ("mean", 2.0)


def test_the_reference_can_be_in_the_data():
    batch = planted(8, 0)
    model = ImplicitReward(TokenModel("small", vocabulary=VOCABULARY))
    with_ref = model.predict(batch)
    fitted = ImplicitReward.fit(
        with_ref, backbone=TokenModel("small", vocabulary=VOCABULARY), reference="data", epochs=1
    )
    np.testing.assert_array_equal(fitted.predict(with_ref).ref_logp_T, with_ref.ref_logp_T)
    with pytest.raises(DataError, match="reads ref_logp, which the rollouts lack"):
        ImplicitReward.fit(batch, reference="data", epochs=1)


def test_what_nothing_can_be_learned_from_is_refused():
    same = Batch.from_trajectories(Trajectory(t.steps, group=t.group, outcome=1.0) for t in planted(8, 0))
    with pytest.raises(DataError, match="every rollout succeeds, so nothing tells them apart"):
        ImplicitReward.fit(same)
    with pytest.raises(DataError, match="no group has a better and a worse rollout, so there is no pair"):
        ImplicitReward.fit(same, loss="dpo")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"loss": "mse"}, "loss is 'mse'; give one of ce, dpo"),
        ({"beta": 0.0}, "beta is 0.0; give a positive number"),
        ({"score": "max"}, "score is 'max'; give one of sum, mean, step_mean"),
        ({"reference": "old"}, "reference is 'old'; give one of start, data"),
        (
            {"backbone": Backbone("small", vocabulary=12)},
            "the backbone is a Backbone; this model stands on a TokenModel",
        ),
        ({"backbone": TokenModel("small", vocabulary=VOCABULARY, tune="none")}, "tune='none' leaves nothing to learn"),
    ],
)
def test_what_cannot_be_used_is_said(given, says):
    with pytest.raises(ConfigError, match=says):
        ImplicitReward.fit(planted(8, 0), **given)


def test_measures_of_scores_by_hand():
    told = classified(np.array([2.0, 0.5, 0.5, -1.0]), np.array([True, True, False, False]))
    assert told["accuracy"][0] == 0.75
    assert told["auc"][0] == 3.5 / 4
    assert told["trajectories"] == 4
    assert classified(np.zeros(0), np.zeros(0, bool))["auc"] == [None] * 3
    assert classified(np.ones(3), np.ones(3, bool))["auc"] == [None] * 3
