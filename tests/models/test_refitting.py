"""A model that is fitted to batch after batch: it learns, keeps its optimizer, and goes on where it was."""

import numpy as np
import pytest
import torch

from apportion.errors import CheckpointError, ConfigError, DataError
from apportion.models import AgentPRM, Backbone, ImplicitReward, Settings, TokenModel, ValueHead, fitting
from apportion.models.refitting import Refit
from apportion.numerics import gae
from tests.models.test_value_head import coin

ONLINE = Settings(epochs=2, lr=3e-3, batch_tokens=256, held_out=0.0)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def head(**how):
    return ValueHead(Backbone("small", vocabulary=12), level="step", **how)


MODELS = {
    "value_head": head,
    "agentprm": lambda: AgentPRM(Backbone("small", vocabulary=12)),
    "implicit_reward": lambda: ImplicitReward(TokenModel("small", vocabulary=12)),
}


def test_values_become_known_over_batches_of_which_each_is_seen_once():
    eager = Settings(epochs=3, lr=2e-3, batch_tokens=256, held_out=0.0)
    refit = Refit(head(), eager)
    told = [refit.update(refit.model.task(coin(48, k), eager))["loss"] for k in range(4)]
    assert told[-1] < told[0]
    batch = refit.model.predict(coin(40, 99))
    later = np.arange(len(batch.value_S)) % 3 > 0
    won = batch.outcome_N[batch.traj_of_S] == 1
    assert batch.value_S[later & won].min() > batch.value_S[later & ~won].max() + 0.3


@pytest.mark.parametrize("kind", MODELS)
def test_what_is_saved_goes_on_to_the_same_bits(kind, tmp_path):
    def made(refit, first, last):
        for k in range(first, last):
            refit.update(refit.model.task(coin(12, k), ONLINE))
        return refit

    whole = made(Refit(MODELS[kind](), ONLINE), 0, 4)
    half = made(Refit(MODELS[kind](), ONLINE), 0, 2)
    half.save_state(tmp_path, number=2, keep=2)
    rest = Refit(MODELS[kind](), ONLINE)
    rest.go_on_from(tmp_path, number=2)
    made(rest, 2, 4)
    assert all(torch.equal(a, b) for a, b in zip(whole.model.parameters(), rest.model.parameters(), strict=True))
    without_moments = Refit(half.model, ONLINE)
    without_moments.passes = 4
    made(without_moments, 2, 4)
    pairs = zip(whole.model.parameters(), without_moments.model.parameters(), strict=True)
    assert not all(torch.equal(a, b) for a, b in pairs)
    with pytest.raises(CheckpointError, match="no checkpoint"):
        rest.go_on_from(tmp_path, number=3)


def test_every_pass_has_an_order_of_its_own(monkeypatch, tmp_path):
    seen, steps = [], fitting._steps
    monkeypatch.setattr(fitting, "_steps", lambda sizes, settings, k: seen.append(k) or steps(sizes, settings, k))
    refit = Refit(head(), ONLINE)
    for k in range(2):
        refit.update(refit.model.task(coin(8, k), ONLINE))
    refit.save_state(tmp_path, number=2, keep=1)
    rest = Refit(head(), ONLINE)
    rest.go_on_from(tmp_path, number=2)
    rest.update(rest.model.task(coin(8, 2), ONLINE))
    assert seen == [0, 1, 2, 3, 4, 5]


def test_targets_and_clip_are_of_the_values_before_the_first_pass():
    """Generalised advantages of the old values, in each of the passes, as PPO has it; and a clip of 0.05 holds them."""
    batch, loose, tight = coin(32, 0), Settings(epochs=12, lr=3e-3, batch_tokens=256, held_out=0.0), {}
    for clip in (None, 0.05):
        refit = Refit(head(), loose)
        before = refit.model.predict(batch).value_S
        task = refit.model.task(batch, loose, lam=0.5, clip=clip)
        refit.update(task)
        want = before + gae(task.units.reward_S, before, task.units.traj_of_S, gamma=1.0, lam=0.5)
        np.testing.assert_allclose(task.target_S, want, atol=1e-6)
        tight[clip] = np.abs(refit.model.predict(batch).value_S - before)
        assert (task.clipped > 0) is (clip is not None)
        assert task.clipped <= task.read
    assert tight[None].max() > 0.3
    assert np.quantile(tight[0.05], 0.9) < 0.15  # beyond it there is no gradient; a step may go a little further


def test_an_implicit_reward_learns_from_a_batch_of_one_kind_and_passes_over_groups_without_pairs():
    refit = Refit(MODELS["implicit_reward"](), ONLINE)
    batch = coin(12, 0)
    failed = type(batch).from_trajectories(t for t in batch if t.outcome == 0.0)
    assert refit.update(refit.model.task(failed, ONLINE))["steps"] > 0
    assert refit.update(refit.model.task(failed, ONLINE, loss="dpo")) == {"steps": 0.0}
    with pytest.raises(DataError, match="every rollout fails"):
        ImplicitReward.fit(failed, backbone=TokenModel("small", vocabulary=12))


def test_what_cannot_be_used_is_said():
    with pytest.raises(ConfigError, match=r"held_out is 0\.1; give 0"):
        Refit(head(), Settings())
    with pytest.raises(ConfigError, match="beta is -1"):
        ImplicitReward.check_task(beta=-1)
    with pytest.raises(ConfigError, match="lam is 2"):
        AgentPRM.check_task(lam=2)
    with pytest.raises(ConfigError, match="clip is 0"):
        ValueHead.check_task(clip=0)
