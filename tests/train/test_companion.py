"""A critic that learns beside the policy: it is read, it is saved with the run, and a stopped run ends the same."""

import json

import numpy as np
import pytest
import torch

from apportion.errors import CheckpointError, ConfigError
from apportion.models import load
from apportion.train import TrainConfig, train
from apportion.train import companion_archer as module

QUICK = {"steps": 3, "draws": 16, "capacity": 60}


@pytest.fixture
def archer(config):
    def build(**changes):
        return config(**{"env": "keydoor", "credit": "archer", "credit_params": QUICK, "eval_tasks": 0, **changes})

    return build


def numbers(result):
    """Every line of the log without times."""
    return [{k: v for k, v in line.items() if k not in ("seconds", "time")} for line in result.metrics]


def policy_of(result):
    return (result.folder / "policy" / "model.safetensors").read_bytes()


def test_the_critic_learns_is_read_and_is_left_in_the_run(archer, monkeypatch):
    seen = []
    told = module.ArCHerCompanion.told
    monkeypatch.setattr(module.ArCHerCompanion, "told", lambda self, units: seen.append(told(self, units)) or seen[-1])
    result = train(archer())
    lines = [line for line in result.metrics if "critic" in line]
    assert [line["critic"]["buffer"] for line in lines][-1] <= 60
    assert all(line["critic"]["loss"] > 0 for line in lines)
    assert len(lines) == 3
    units = seen[-1]
    want = units.reward_parts["q"] - units.reward_parts["v"]
    assert lines[-1]["credit"]["std"] == pytest.approx(want[units.valid_S].std(), rel=1e-6)
    assert want.any()
    model = load(result.folder / "credit")
    np.testing.assert_array_equal(model.predict(units.batch).reward_parts["q"], units.reward_parts["q"])


def test_a_stopped_run_goes_on_to_the_same_numbers(archer, tmp_path):
    given = {"iterations": 4}
    whole = train(archer(**given, out=str(tmp_path / "a")))
    train(archer(**{**given, "iterations": 2}, out=str(tmp_path / "b")))
    rest = train(archer(**given, out=str(tmp_path / "b")), resume=True)
    assert numbers(rest) == numbers(whole)
    assert policy_of(rest) == policy_of(whole)
    a, b = (load(result.folder / "credit") for result in (whole, rest))
    assert all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def test_a_run_killed_between_the_critics_save_and_its_own_goes_on_to_the_same_numbers(archer, tmp_path, monkeypatch):
    whole = train(archer(iterations=3, out=str(tmp_path / "a")))
    settings = archer(iterations=3, out=str(tmp_path / "b"))
    from apportion.train import loop

    def killed(folder, done, *rest, **more):
        if done == 2:
            raise KeyboardInterrupt
        return saved(folder, done, *rest, **more)

    saved = loop.save_checkpoint
    monkeypatch.setattr(loop, "save_checkpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        train(settings)
    monkeypatch.setattr(loop, "save_checkpoint", saved)
    assert (tmp_path / "b" / "credit" / "online" / "000002").is_dir()
    rest = train(settings, resume=True)
    assert numbers(rest) == numbers(whole)
    assert policy_of(rest) == policy_of(whole)


def test_in_the_warm_up_the_critic_alone_learns(archer, tmp_path):
    params = {**QUICK, "warmup": 2}
    result = train(archer(credit_params=params, iterations=2))
    before = (result.folder / "start" / "model.safetensors").read_bytes()
    assert policy_of(result) == before
    result = train(archer(credit_params=params, iterations=3, out=str(tmp_path / "longer")))
    assert policy_of(result) != before


def test_files_that_fell_out_of_the_buffer_go_when_no_saved_state_names_them(archer):
    result = train(archer(iterations=5, keep=1, credit_params={**QUICK, "capacity": 8}))
    folder = result.folder / "credit"
    states = [json.loads(path.read_text()) for path in sorted((folder / "online").glob("*/state.json"))]
    assert len(states) == 2  # one more than the policy's, which is saved after it
    named = {name for state in states for name in state["counters"]["replay"]["segments"]}
    assert {path.name[:6] for path in (folder / "buffer").iterdir()} == named
    assert "000000" not in named


def test_the_state_that_belongs_to_the_policy_is_asked_for(archer):
    settings = archer(iterations=1)
    result = train(settings)
    for path in (result.folder / "credit" / "online").iterdir():
        path.rename(path.with_name(f"9{path.name}"))
    with pytest.raises(CheckpointError, match="no checkpoint"):
        train(archer(iterations=2), resume=True)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"credit": "oracle", "credit_params": {}},
            "credit is 'oracle'; give one of archer, value_head, agentprm, implicit_reward, the folder of a",
        ),
        ({"credit": None}, "credit_params are given and credit is not"),
        ({"method": "gigpo"}, "method is 'gigpo', which does not read credit=archer; give method=archer"),
        ({"credit_params": {"rate": 1}}, "credit_params: archer takes no 'rate'; there are gamma, tau"),
        ({"credit_params": {"warmup": -1}}, "warmup is -1; give a number of iterations"),
        ({"credit_params": {"steps": 0}}, "steps is 0; give a whole number from 1 up"),
        ({"credit_params": {"gamma": 2}}, "gamma is 2; give a number from 0 to 1"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_is_written(archer, given, says, tmp_path):
    with pytest.raises(ConfigError, match=says):
        train(archer(**given))
    assert not list(tmp_path.iterdir())


def test_a_flag_for_the_credit_model_takes_the_method_that_reads_it():
    assert TrainConfig().method == "gigpo"
    assert TrainConfig().with_overrides(["credit=archer"]).method == "archer"
    assert TrainConfig.from_mapping({"credit": "archer"}).method == "archer"
    both = TrainConfig().with_overrides(["credit=archer", "method=archer | whiten"])
    assert both.method == "archer | whiten"
    assert TrainConfig.from_mapping(both.to_mapping()) == both
