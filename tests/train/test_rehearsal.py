"""What is said before a run begins, or before its first update, and not after it."""

import warnings

import numpy as np
import pytest

from apportion.credit import Credit
from apportion.errors import ConfigError
from apportion.losses import FineCreditLost
from apportion.train import learner, loop, train


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"method": "gae"}, r"rollouts of crafttree cannot be credited: gae reads value_S, which the units \(cut by"),
        ({"method_params": {"scale": "foo"}}, "rollouts of crafttree cannot be credited: gigpo: scale is 'foo'; give"),
        ({"method": "vineppo"}, "'vineppo' asks a policy, and a training run has none; take one that asks nobody"),
    ],
)
def test_a_method_that_cannot_work_stops_the_run_before_anything_is_written(config, tmp_path, changes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        train(config(**changes))
    assert not (tmp_path / "run").exists()


@pytest.fixture
def ragged(config, monkeypatch):
    """Settings of a run whose rows are whole rollouts, and whose credit differs from token to token."""
    monkeypatch.setattr(loop, "assign", lambda _, units, **__: Credit(np.arange(len(units)) % 3 - 1.0, units))

    def build(**changes):
        return config(env="tests/copy", actions="text", prompt="history", max_action_tokens=6, method="reinforce",
                      unit="token", eval_tasks=0, **changes)  # fmt: skip

    return build


def test_a_loss_that_averages_the_credit_away_warns_once_and_before_the_first_update(ragged, monkeypatch):
    order, real = [], learner.minimise
    monkeypatch.setattr(learner, "minimise", lambda *a, **k: (order.append("update"), real(*a, **k)))
    with warnings.catch_warnings():
        warnings.simplefilter("always", FineCreditLost)
        warnings.showwarning = lambda message, *_: order.append(str(message))
        train(ragged(loss="gspo"))
    assert order[1:] == ["update"] * 3
    assert order[0].startswith("loss=gspo has one ratio per row and gives each token the row's mean credit")
    assert order[0].endswith("use gspo_token, or a loss with a ratio per token (ppo, cispo)")


def test_a_loss_that_keeps_the_credit_does_not_warn(ragged):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FineCreditLost)
        train(ragged(loss="gspo_token"))


def test_one_credit_per_row_does_not_warn(config):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FineCreditLost)
        train(config(loss="gspo", method="grpo", eval_tasks=0))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"unit": "token"}, "gigpo credits steps, the units are tokens; cut the batch with by_step or by_turn"),
        ({"unit": "lines"}, "unit is 'lines'; give one of episode, turn, step"),
        ({"method_params": {"gama": 1}}, "gigpo: unknown parameter 'gama'; .* did you mean 'gamma'"),
        ({"method_params": {"gamma": 2}}, "gigpo: gamma is 2; give a number from 0 to 1"),
    ],
)
def test_settings_are_checked_against_the_method(config, changes, sentence):
    with pytest.raises(ConfigError, match=sentence):
        config(**changes)


def test_the_rehearsal_changes_no_number_of_the_run(config, monkeypatch, tmp_path):
    def weights(name):
        return (train(config(out=str(tmp_path / name))).folder / "policy" / "model.safetensors").read_bytes()

    with_it = weights("with")
    monkeypatch.setattr(loop, "rehearse", lambda *_: None)
    assert weights("without") == with_it
