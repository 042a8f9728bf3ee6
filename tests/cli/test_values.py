"""`apportion values`: the trained policy plays on from its own rollouts."""

import json

import pytest

pytest.importorskip("torch")

from apportion.cli.run import run
from apportion.data import Batch, write
from apportion.train import TrainConfig
from apportion.train.policy import Policy
from apportion.train.rollout import Collector
from tests.train.make import SMALL

GAME = {"horizon": 4, "budget": 2}


@pytest.fixture
def folder(tmp_path):
    """A run that was never trained, and rollouts of its policy."""
    collector = Collector("crafttree", GAME)
    config = TrainConfig(**{**SMALL, "env_options": GAME, "out": str(tmp_path / "run")})
    policy = Policy.from_config(config, collector.env)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text(config.to_json())
    policy.save(tmp_path / "run" / "policy")
    rollouts = collector.collect(policy, [0, 1], rollouts=2).trajectories
    write(tmp_path / "rollouts.jsonl", Batch.from_trajectories(rollouts))
    return tmp_path


def test_it_measures_and_asks_only_once(folder, capsys):
    call = ["values", str(folder / "rollouts.jsonl"), "--run", str(folder / "run"), "--truth", "6", "--states", "4"]
    call += ["--sources", "samples:2", "--actions", "3", "--cache", str(folder / "answers.sqlite")]
    assert run([*call, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    quality = told["sources"]["samples:2"]
    assert quality["errors"]["states"] >= 4
    assert told["requests"] > 0
    assert run([*call, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["requests"] == 0
    assert again["sources"] == told["sources"]
    assert run(call) == 0
    assert "samples:2" in capsys.readouterr().out


def test_what_it_refuses(folder, capsys):
    call = ["values", str(folder / "rollouts.jsonl"), "--run"]
    assert run([*call, str(folder)]) == 2
    assert "holds no trained policy; give the folder of a run of `apportion train`" in capsys.readouterr().err
    assert run([*call, str(folder / "run"), "--sources", "guess", "--states", "1", "--truth", "1"]) == 2
    assert "no source of values is named 'guess'" in capsys.readouterr().err
