"""Credit models that are fitted to each batch beside the policy: what they are told, when, and that a run resumes."""

import numpy as np
import pytest
import torch

from apportion.errors import CheckpointError, ConfigError
from apportion.models import load
from apportion.numerics import to_go
from apportion.numerics.value_quality import explained_variance
from apportion.train import TrainConfig, train
from apportion.train import companion_refit as module

RUNS = {
    "value_head": {"credit": "value_head"},
    "value_head, turns": {"credit": "value_head", "method": "turn_gae", "credit_params": {"clip": 0.02, "epochs": 4}},
    "agentprm": {"credit": "agentprm"},
    "implicit_reward": {"credit": "implicit_reward"},
    "implicit_reward, istar": {
        "credit": "implicit_reward", "method": "istar", "credit_params": {"loss": "dpo", "score": "step_mean"},
    },
    "value_head, small": {
        "credit": "value_head", "unit": "step", "credit_params": {"backbone": "small", "tune": "none"},
    },
}  # fmt: skip


@pytest.fixture
def settings(config):
    def build(**changes):
        given = {"credit_params": {}, **changes}
        params = {"epochs": 1, "lr": 1e-2, **given.pop("credit_params")}
        return config(**{"env": "keydoor", "eval_tasks": 0, "credit_params": params, **given})

    return build


def numbers(result):
    """Every line of the log without times."""
    return [{k: v for k, v in line.items() if k not in ("seconds", "time")} for line in result.metrics]


def policy_of(result):
    return (result.folder / "policy" / "model.safetensors").read_bytes()


def seen_by(monkeypatch):
    """Units as each iteration's credit got them, with a prediction of the model as it then was."""
    out, iteration = [], module.Refitted.iteration

    def listen(self, units):
        told, said = iteration(self, units)
        out.append((told, self.model.predict(units.batch), said))
        return told, said

    monkeypatch.setattr(module.Refitted, "iteration", listen)
    return out


@pytest.mark.parametrize("name", RUNS)
def test_a_stopped_run_goes_on_to_the_same_numbers(name, settings, tmp_path):
    given = {**RUNS[name], "iterations": 3}
    whole = train(settings(**given, out=str(tmp_path / "a")))
    train(settings(**{**given, "iterations": 1}, out=str(tmp_path / "b")))
    rest = train(settings(**given, out=str(tmp_path / "b")), resume=True)
    assert numbers(rest) == numbers(whole)
    assert policy_of(rest) == policy_of(whole)
    a, b = (load(result.folder / "credit") for result in (whole, rest))
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))
    fresh = train(settings(**{**given, "iterations": 0}, out=str(tmp_path / "c")))
    untrained = load(fresh.folder / "credit")
    assert not all(torch.equal(x, y) for x, y in zip(a.parameters(), untrained.parameters(), strict=True))
    assert any(line["critic"].get("loss", 0.0) > 0 for line in whole.metrics if line["iteration"] > 0)


def test_values_are_told_before_the_batch_is_learned_and_explained_variance_is_theirs(settings, monkeypatch):
    seen = seen_by(monkeypatch)
    result = train(settings(credit="value_head", method="gae", method_params={"gamma": 0.9, "lam": 0.5}))
    first, second, _ = seen
    assert not first[0].value_S.any()  # a head begins at 0
    assert first[1].token_value_T.any()
    told, said = second[0], second[2]
    came = to_go(told.reward_S, told.traj_of_S, gamma=0.9)
    assert said["explained_variance"] == pytest.approx(explained_variance(told.value_S, came))
    assert result.metrics[2]["critic"]["explained_variance"] == said["explained_variance"]
    model = load(result.folder / "credit")
    assert (model.level, model.gamma) == ("token", 0.9)  # the method's
    before = model.predict(told.batch).token_value_T
    assert not np.allclose(before[told.batch.sampled_T], told.value_S)


def test_targets_are_those_of_the_methods_lambda_unless_it_is_given(settings, monkeypatch):
    fits, task = [], module.ValueHead.task
    monkeypatch.setattr(
        module.ValueHead,
        "task",
        lambda self, *a, **how: fits.append({**how, "gamma": self.gamma}) or task(self, *a, **how),
    )
    train(settings(credit="value_head", method="turn_gae(gamma=0.7) | whiten", iterations=1))
    params = {"lam": 1.0, "gamma": 0.5, "clip": 0.2}
    train(settings(credit="value_head", credit_params=params, iterations=1, out=f"{settings(credit='archer').out}-2"))
    assert fits == [{"gamma": 0.7, "lam": 0.9}, params]


def test_a_clip_holds_the_values_back_and_its_share_is_in_the_log(settings, tmp_path):
    """Values start at 0 and an update ends near the bound; a step that passes it is not undone, and no more follow."""
    moved = {}
    for clip in (0.01, 10.0):
        params = {"clip": clip, "epochs": 12, "lr": 3e-3, "batch_tokens": 400}
        result = train(
            settings(
                credit="value_head", credit_params=params, iterations=1, out=str(tmp_path / str(clip)), dump_every=1
            )
        )
        line = result.metrics[1]["critic"]
        import apportion as ap

        batch = ap.read(result.folder / "rollouts" / "000000.jsonl")
        moved[clip] = np.abs(load(result.folder / "credit").predict(batch).token_value_T[batch.sampled_T]).mean()
        assert (line["clip_share"] > 0) is (clip < 1)
    assert moved[0.01] < 0.5 * moved[10.0]


@pytest.mark.parametrize(("order", "after"), [("learn_first", True), ("tell_first", False), (None, True)])
def test_an_implicit_reward_is_told_after_the_outcomes_were_learned_or_before(order, after, settings, monkeypatch):
    seen = seen_by(monkeypatch)
    given = {} if order is None else {"order": order}
    train(settings(credit="implicit_reward", credit_params=given, iterations=2, env="crafttree", clone_episodes=8))
    for told, now, _ in seen:
        same = np.array_equal(told.batch.columns_T["prm_logp"], now.columns_T["prm_logp"])
        assert same is after
    first = seen[0][0].batch
    own = first.sampled_T
    assert np.allclose(first.columns_T["prm_logp"][own], first.ref_logp_T[own]) is not after


def test_the_model_stands_on_the_policy_that_the_run_starts_with(settings):
    result = train(settings(credit="implicit_reward", iterations=1, clone_episodes=4))
    model = load(result.folder / "credit")
    from safetensors.torch import load_file

    begun = load_file(result.folder / "start" / "model.safetensors")
    start = dict(model.start.trunk.named_parameters())
    assert all(torch.equal(begun[name], start[name]) for name in begun if name in start)
    assert sum(name in start for name in begun) > 5


def test_in_the_warm_up_the_model_alone_learns(settings, tmp_path):
    result = train(settings(credit="value_head", credit_params={"warmup": 2}, iterations=2))
    assert policy_of(result) == (result.folder / "start" / "model.safetensors").read_bytes()
    assert result.metrics[2]["critic"]["steps"] > 0


def test_the_state_that_belongs_to_the_policy_is_asked_for(settings):
    result = train(settings(credit="agentprm", iterations=1))
    for path in (result.folder / "credit" / "online").iterdir():
        path.rename(path.with_name(f"9{path.name}"))
    with pytest.raises(CheckpointError, match="no checkpoint"):
        train(settings(credit="agentprm", iterations=2), resume=True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"credit": "value_head", "method": "gigpo"}, "does not read credit=value_head; give method=gae or step_gae"),
        ({"credit": "implicit_reward", "method": "gae"}, "does not read credit=implicit_reward; give method=prime"),
        ({"credit": "agentprm", "method": "pure"}, "does not read credit=agentprm; give method=agentprm,"),
        ({"credit": "value_head", "unit": "segment"}, "segment"),
        ({"credit": "value_head", "credit_params": {"beta": 1}}, "value_head takes no 'beta'; there are gamma, hidden"),
        ({"credit": "value_head", "credit_params": {"clip": 0}}, "clip is 0; give a positive number"),
        ({"credit": "value_head", "credit_params": {"clip": "a"}}, "clip is 'a'; give a positive number"),
        ({"credit": "value_head", "credit_params": {"gamma": 2}}, "gamma is 2; give a number from 0 to 1"),
        ({"credit": "value_head", "credit_params": {"lam": "x"}}, "lam is 'x'; give a number from 0 to 1"),
        ({"credit": "value_head", "credit_params": {"epochs": 0}}, "epochs is 0; give a whole number from 1 up"),
        ({"credit": "value_head", "credit_params": {"tune": "some"}}, "tune is 'some'; give one of all, lora, none"),
        ({"credit": "value_head", "credit_params": {"warmup": 0.5}}, "warmup is 0.5; give a number of iterations"),
        ({"credit": "agentprm", "credit_params": {"progress_target": "x"}}, "progress_target is 'x'; give one of"),
        ({"credit": "implicit_reward", "credit_params": {"order": "both"}}, "order is 'both'; give one of tell_first"),
        ({"credit": "implicit_reward", "credit_params": {"score": "max"}}, "score is 'max'; give one of sum, mean"),
        ({"credit": "implicit_reward", "credit_params": {"tune": "none"}}, "leaves nothing to learn"),
        ({"credit": "implicit_reward", "credit_params": {"held_out": 0.1}}, "implicit_reward takes no 'held_out'"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said_before_anything_is_written(settings, given, says, tmp_path):
    with pytest.raises(ConfigError, match=says):
        train(settings(**given))
    assert not list(tmp_path.iterdir())


def test_each_model_brings_the_method_that_reads_it():
    for credit, method in (("value_head", "gae"), ("agentprm", "agentprm"), ("implicit_reward", "prime")):
        assert TrainConfig().with_overrides([f"credit={credit}"]).method == method
