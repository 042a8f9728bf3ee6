"""A value head: what it is fitted to, that it finds a known value, and that a stopped fit ends in the same numbers."""

import json
import math

import numpy as np
import pytest
import torch

import apportion as ap
from apportion.data import Batch, Step, Trajectory
from apportion.errors import CheckpointError, ConfigError, DataError
from apportion.models import Backbone, Settings, ValueHead, load
from apportion.models.value_head import _Returns
from apportion.units import by_step, by_token, by_turn


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def coin(n, seed, *, length=3, truncated=False):
    """Token 0 or 1 is shown before step 1 and is the outcome: V is ½ before step 0 and the token afterwards."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(n):
        bit = int(rng.integers(2))
        steps = [
            Step(
                prompt_ids=[bit if k == 1 else 2, 3 + k],
                ids=[7 + int(rng.integers(3)), 10],
                truncated=truncated and k == length - 1,
            )
            for k in range(length)
        ]
        out.append(Trajectory(steps, group=f"g{i // 4}", outcome=float(bit)))
    return Batch.from_trajectories(out)


FAST = Settings(epochs=15, lr=3e-3, batch_tokens=512, held_out=0.2)


@pytest.fixture(scope="module")
def fitted():
    torch.set_num_threads(1)
    return ValueHead.fit(coin(160, 0), backbone=Backbone("small", vocabulary=12), level="step", settings=FAST)


def test_it_finds_a_value_that_is_known(fitted):
    batch = fitted.predict(coin(40, 1))
    want = np.where(np.arange(len(batch.value_S)) % 3 == 0, 0.5, batch.outcome_N[batch.traj_of_S])
    assert np.abs(batch.value_S - want).mean() < 0.12
    told = fitted.fitted.measures
    assert told["trajectories"] == 32
    assert told["explained_variance"][1] < told["explained_variance"][0] < told["explained_variance"][2]
    assert 0.5 < told["explained_variance"][0] < 0.8  # 2/3: the first of three steps cannot be known
    again = fitted.measure(coin(40, 1))
    assert again["error"][0] == pytest.approx(
        np.mean((batch.value_S - batch.outcome_N[batch.traj_of_S]) ** 2), rel=1e-4
    )


def test_credit_with_a_model_is_credit_of_its_predictions(fitted):
    batch = coin(8, 2)
    units = by_step(batch)
    credit = ap.assign("step_gae", units, values=fitted, gamma=0.9, lam=0.5)
    want = ap.assign("step_gae", by_step(fitted.predict(batch)), gamma=0.9, lam=0.5)
    np.testing.assert_array_equal(credit.advantage_S, want.advantage_S)
    assert units.value_S is None
    with pytest.raises(DataError, match="step_gae reads value_S"):
        ap.assign("step_gae", units)
    with pytest.raises(DataError, match="other rollouts"):
        ap.assign("step_gae", units, values=Other(coin(8, 3)))


def test_measures_are_against_returns_discounted_as_in_the_fit(tmp_path):
    batch = coin(24, 0)
    model = ValueHead.fit(batch, level="step", gamma=0.5, epochs=1, out=tmp_path / "m")
    came = batch.outcome_N[batch.traj_of_S] * np.tile([0.25, 0.5, 1.0], 24)
    want = np.mean((model.predict(batch).value_S - came) ** 2)
    for one in (model, load(tmp_path / "m")):
        assert one.measure(batch)["error"][0] == pytest.approx(want, rel=1e-4)


class Other:
    def __init__(self, batch):
        self.batch = batch

    def predict(self, batch):
        return self.batch


@pytest.mark.parametrize(("level", "cut"), [("token", by_token), ("step", by_step), ("turn", by_turn)])
def test_values_stand_before_each_unit_and_see_nothing_of_it(level, cut):
    model = ValueHead(Backbone("small", vocabulary=12), level=level, hidden=8)
    torch.nn.init.normal_(model.head[2].weight)
    batch = coin(3, 0)
    changed = [
        Trajectory([*t.steps[:2], Step(prompt_ids=t.steps[2].prompt_ids, ids=[5, 6])], group=t.group, outcome=t.outcome)
        for t in batch
    ]
    a, b = model.predict(batch), model.predict(Batch.from_trajectories(changed))
    np.testing.assert_array_equal(a.value_S, b.value_S)
    assert not np.array_equal(a.final_value_N, b.final_value_N)
    assert (a.token_value_T is not None) is (level == "token")
    assert cut(a).value_S is not None
    if level == "token":
        first = np.flatnonzero(a.sampled_T & ~np.append(False, a.sampled_T[:-1]))
        np.testing.assert_allclose(a.token_value_T[first], a.value_S, atol=1e-6)
        last = np.flatnonzero(a.sampled_T)[5::6]
        assert not np.array_equal(a.token_value_T[last], b.token_value_T[last])
        assert not a.token_value_T[~a.sampled_T].any()


@pytest.mark.parametrize("lam", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("truncated", [False, True])
def test_targets_are_lambda_returns_of_the_values_before_the_epoch(lam, truncated):
    gamma, batch = 0.9, coin(5, 4, truncated=truncated)
    model = ValueHead(Backbone("small", vocabulary=12), level="step")
    torch.nn.init.normal_(model.head.weight, std=0.1)
    task = _Returns(model, batch, Settings(held_out=0.0), gamma=gamma, lam=lam, clip=None)
    task.begin(0)
    seen = model.predict(batch)
    for n in range(5):
        value, follows = seen.value_S[3 * n : 3 * n + 3], float(seen.final_value_N[n]) if truncated else 0.0
        want = [0.0] * 3
        for k in (2, 1, 0):
            reward = float(batch.outcome_N[n]) if k == 2 else 0.0
            after = follows if k == 2 else value[k + 1]
            return_after = follows if k == 2 else want[k + 1]
            want[k] = reward + gamma * ((1 - lam) * after + lam * return_after)
        np.testing.assert_allclose(task.target_S[3 * n : 3 * n + 3], want, atol=1e-6)


def test_clipping_is_ppos():
    batch = coin(4, 0)
    model = ValueHead(Backbone("small", vocabulary=12), level="step")
    task = _Returns(model, batch, Settings(held_out=0.0), gamma=1.0, lam=1.0, clip=0.2)
    task.begin(0)
    with torch.no_grad():
        model.head.bias.fill_(0.5)  # from 0 to 0.5, beyond the clip
    loss, weight = task.loss(np.arange(len(task.sizes)))
    target = task.target_S
    want = 0.5 * np.maximum((0.5 - target) ** 2, (0.2 - target) ** 2)
    assert weight == 12
    assert float(loss.detach()) == pytest.approx(want.sum(), rel=1e-5)


@pytest.mark.parametrize("lam", [0.5, 1.0])
def test_a_stopped_fit_goes_on_to_the_same_numbers(tmp_path, lam):
    batch, short = coin(40, 0), Settings(epochs=1, batch_tokens=256, lr=1e-2)
    whole = ValueHead.fit(batch, level="step", settings=short, epochs=3, out=tmp_path / "a", lam=lam)
    ValueHead.fit(batch, level="step", settings=short, out=tmp_path / "b", lam=lam)
    rest = ValueHead.fit(batch, level="step", settings=short, epochs=3, out=tmp_path / "b", lam=lam, resume=True)
    assert (rest.fitted.resumed, whole.fitted.resumed) == (1, 0)
    assert rest.fitted.losses == whole.fitted.losses
    for x, y in zip(rest.parameters(), whole.parameters(), strict=True):
        assert torch.equal(x, y)
    with pytest.raises(ConfigError, match="holds checkpoints of an earlier run; resume it"):
        ValueHead.fit(batch, level="step", settings=short, out=tmp_path / "b")


@pytest.mark.parametrize("tune", ["all", "none", "lora"])
def test_a_saved_model_predicts_the_same(tmp_path, tune):
    if tune == "lora":
        pytest.importorskip("peft")
    batch = coin(8, 0)
    trunk = Backbone("small", vocabulary=12, tune=tune, lora={"fan_in_fan_out": True} if tune == "lora" else None)
    model = ValueHead.fit(batch, backbone=trunk, level="token", epochs=2, lr=1e-2, hidden=4, out=tmp_path / "m")
    again = load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(batch).token_value_T, model.predict(batch).token_value_T)
    learned = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert (learned < 20_000) is (tune != "all")
    json.loads((tmp_path / "m" / "model.json").read_text())

    (tmp_path / "m" / "weights.safetensors").write_bytes(b"x")
    with pytest.raises(CheckpointError, match=r"weights.safetensors is missing or damaged"):
        load(tmp_path / "m")


def test_a_folder_that_holds_no_such_model_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="no credit model is there"):
        load(tmp_path)
    (tmp_path / "model.json").write_text('{"format": "apportion.credit-model/0", "kind": "ValueHead"}')
    with pytest.raises(CheckpointError, match=r"this (one|apportion) reads (up to )?'apportion\.credit-model/1'"):
        load(tmp_path)
    (tmp_path / "model.json").write_text('{"format": "apportion.credit-model/1", "kind": "Oracle"}')
    with pytest.raises(CheckpointError, match="'Oracle'"):
        load(tmp_path)
    with pytest.raises(CheckpointError, match="holds a Oracle, not a ValueHead"):
        ValueHead.load(tmp_path)


def test_a_loss_that_is_not_finite_leaves_the_last_good_state(tmp_path):
    rollouts = [Trajectory(t.steps, group=t.group, outcome=1e200) for t in coin(8, 0)]
    model = ValueHead(Backbone("small", vocabulary=12), level="step")
    before = [p.detach().clone() for p in model.parameters()]
    task = _Returns(model, Batch.from_trajectories(rollouts), Settings(), gamma=1.0, lam=1.0, clip=None)
    from apportion.models import fitting

    with pytest.raises(DataError, match=r"the loss is inf in epoch 1, so nothing of that epoch was kept; lower lr"):
        fitting.run(model, task, Settings())
    assert all(torch.equal(x, y) for x, y in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"level": "word"}, "level is 'word'; give one of token, step, turn"),
        ({"gamma": 1.5}, "gamma is 1.5; give a number from 0 to 1"),
        ({"clip": 0.0}, "clip is 0.0; give a positive number"),
        ({"epochs": 0}, "epochs is 0; give a whole number from 1 up"),
        ({"lr": math.nan}, "lr is nan"),
        ({"rate": 1.0}, "fitting has no setting 'rate'; there are epochs, lr"),
        ({"backbone": 7}, "the backbone is a int; give 'small', a folder"),
        ({"backbone": "/nowhere/at/all"}, "no backbone can be loaded from '/nowhere/at/all'"),
        ({"resume": True}, "resume needs the folder of the run"),
    ],
)
def test_what_cannot_be_used_is_said(given, says):
    with pytest.raises(ConfigError, match=says):
        ValueHead.fit(coin(8, 0), **given)


def test_rollouts_without_a_score_are_not_fitted():
    unscored = Batch.from_trajectories(Trajectory(t.steps, group=t.group) for t in coin(4, 0))
    with pytest.raises(DataError, match="no rollout is scored"):
        ValueHead.fit(unscored)


def test_a_batch_is_read_the_same_in_windows_of_any_company():
    """A value does not depend on what else is read beside it."""
    model = ValueHead(Backbone("small", vocabulary=12), level="token")
    torch.nn.init.normal_(model.head.weight)
    batch = coin(50, 0)
    alone = np.concatenate([model.predict(Batch.from_trajectories([t])).token_value_T for t in batch])
    np.testing.assert_allclose(model.predict(batch).token_value_T, alone, atol=1e-5)
