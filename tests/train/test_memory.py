"""A method with a memory keeps it over iterations and over a stop."""

import json

import pytest

from apportion.errors import DataError
from apportion.models.checkpoint import checkpoints
from apportion.train import train

FIELDS = {"method": "pooled", "unit": "step", "eval_tasks": 0}


def test_a_run_that_was_stopped_remembers_what_it_knew(config, tmp_path):
    whole = train(config(out=str(tmp_path / "whole"), iterations=4, **FIELDS))
    train(config(out=str(tmp_path / "cut"), iterations=2, **FIELDS))
    resumed = train(config(out=str(tmp_path / "cut"), iterations=4, **FIELDS), resume=True)
    for now, then in zip(resumed.metrics[1:], whole.metrics[1:], strict=True):
        assert now["credit"] == pytest.approx(then["credit"], rel=1e-6)
    assert max(line["credit"]["std"] for line in whole.metrics[3:]) > 0
    known = [line["credit"]["remembered_states"] for line in whole.metrics[1:]]
    assert known[0] == 0 < known[1] < known[-1]
    newest = json.loads((checkpoints(tmp_path / "cut" / "checkpoints")[-1] / "state.json").read_text())
    assert newest["counters"]["memory"]["tick"] == 4


def test_a_memory_of_another_format_is_named(config, tmp_path):
    train(config(iterations=1, **FIELDS))
    from apportion.train import loop

    state = checkpoints(tmp_path / "run" / "checkpoints")[-1] / "state.json"
    values = json.loads(state.read_text())
    values["counters"]["memory"]["format"] = 99
    state.write_text(json.dumps(values))
    with pytest.raises(DataError, match="memory: format 99"):
        loop.train(config(iterations=2, **FIELDS), resume=True)


def test_other_methods_carry_nothing(config, tmp_path):
    train(config(iterations=1, method="grpo", eval_tasks=0))
    newest = json.loads((checkpoints(tmp_path / "run" / "checkpoints")[-1] / "state.json").read_text())
    assert newest["counters"]["memory"] is None
