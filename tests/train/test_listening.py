"""Listeners to a run of the embedded trainer: their numbers are in the metrics, and one of them can end it."""

import json

import pytest

from apportion.check import CollapseMonitor, LiveCheck
from apportion.errors import StopRun
from apportion.train import train
from apportion.train.metrics import read_metrics


def test_a_run_that_collapses_is_ended_with_the_reason(config):
    """Planted: a rate that destroys the cloned policy, so that it says one and the same thing in every rollout."""
    settings = config(clone_episodes=30, clone_epochs=6, iterations=12, lr=3.0, rollouts=4, tasks=3, eval_tasks=0)
    live = LiveCheck(stop={"clip-rate": 2.0}, patience=2)
    result = train(settings, on_credit=live)
    assert result.stopped is not None
    assert 2 < result.iterations < 12
    lines = read_metrics(result.folder / "metrics.jsonl")
    assert min(line["check"]["constant-group"] for line in lines[1:-2]) < 1.0  # it had something to lose
    assert [line["check"]["constant-group"] for line in lines[-2:]] == [1.0, 1.0]
    reason = f"stopped at step {result.iterations - 1} by 'constant-group', 2 batches in a row: 3 of 3 groups"
    assert result.stopped.startswith(reason)
    assert all("stopped" not in line for line in lines[:-1])
    assert lines[-1]["stopped"] == result.stopped
    assert lines[-1]["train"]["updates"] == 0  # not on the batch for which it was ended
    assert json.loads((result.folder / "result.json").read_text())["stopped"] == result.stopped
    assert (result.folder / "policy").is_dir()


def test_what_listeners_say_is_in_the_metrics_and_changes_nothing(config, tmp_path):
    heard = []

    def listener(credit, iteration):
        heard.append((iteration, len(credit.units.batch)))
        return {"mine/size": float(len(credit.units)), "plain": 1.0}

    loud = train(config(out=str(tmp_path / "loud")), on_credit=[listener, LiveCheck(stop=None)])
    quiet = train(config(out=str(tmp_path / "quiet")))
    assert loud.stopped is None
    assert [iteration for iteration, _ in heard] == [0, 1, 2]
    assert loud.metrics[1]["mine"]["size"] > 0
    assert loud.metrics[1]["listeners"] == {"plain": 1.0}
    assert "errors" in loud.metrics[1]["check"]
    for a, b in zip(loud.metrics[1:], quiet.metrics[1:], strict=True):
        assert a["train"] == b["train"]


def test_all_listeners_hear_the_batch_for_which_one_ended_the_run(config):
    heard = []

    def ends(credit, iteration):
        raise StopRun("enough", {"mine/x": 2.0})

    result = train(config(), on_credit=[ends, lambda credit, iteration: heard.append(iteration)])
    assert (result.stopped, result.iterations, heard) == ("enough", 1, [0])
    assert result.metrics[1]["mine"] == {"x": 2.0}


def test_another_error_of_a_listener_is_an_error(config):
    def breaks(credit, iteration):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(config(), on_credit=breaks)


def test_what_a_listener_remembers_goes_on_with_a_resumed_run(config, tmp_path):
    """Both live checks, and one of no class: stopped after each iteration, they end in the state of one whole run."""

    def listeners():
        return [lambda credit, iteration: {"plain": 1.0}, LiveCheck(), CollapseMonitor(patience=2)]

    whole, parts = listeners(), None
    train(config(iterations=4, out=str(tmp_path / "a")), on_credit=whole)
    for done in range(1, 5):
        parts = listeners()
        train(config(iterations=done, out=str(tmp_path / "b")), on_credit=parts, resume=done > 1)
    for one, other in zip(whole[1:], parts[1:], strict=True):
        assert one.state() == other.state()
    assert whole[2].state()["repetitive"]["quiet"] == 4
    fresh = [CollapseMonitor(), lambda credit, iteration: {}]  # others than before: what is known is taken over
    train(config(iterations=5, out=str(tmp_path / "b")), on_credit=fresh, resume=True)
    assert fresh[0].state()["repetitive"]["quiet"] == 5
