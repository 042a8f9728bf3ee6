"""The demo's own arithmetic; that it runs end to end is seen by `APPORTION_DEMO=quick make demo`."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from apportion.bench.demo import learning, run_demo
from apportion.bench.demo.learning import clone_policy, curves, summarise
from apportion.bench.intervals import t_interval
from apportion.cli.demo import _cell
from apportion.errors import DataError, MissingExtra
from apportion.train import TrainConfig
from apportion.train.result import Progress


def test_students_interval_by_hand():
    # mean 2, sample std 1, n 3: 2 +- 4.303 / sqrt(3)
    low, high = t_interval([1.0, 2.0, 3.0])
    assert (low, high) == (pytest.approx(2 - 4.303 / math.sqrt(3)), pytest.approx(2 + 4.303 / math.sqrt(3)))
    assert t_interval([0.0, 1.0], low=0, high=1) == (0, 1)
    with pytest.raises(DataError, match="at least two runs, got 1; run more seeds"):
        t_interval([1.0])


def test_nothing_below_zero_is_shown_as_minus_nothing():
    assert _cell([-0.004, -0.0049, 0.055]) == "0.00 [0.00, 0.06]"
    assert _cell([-0.006, -0.01, -0.004]) == "-0.01 [-0.01, 0.00]"


def test_the_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = [low <= 0.3 <= high for low, high in (t_interval(rng.normal(0.3, 1, size=4)) for _ in range(4000))]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.012)


def result(sampled, greedy, before=0.25):
    return {
        "before": {"success_sampled": before, "success_greedy": 0.2},
        "after": {"success_sampled": sampled, "success_greedy": greedy},
        "generated_tokens": 100,
    }


def test_the_summary_pairs_the_arms_by_seed():
    arms = {"grpo": [result(0.3, 0.2), result(0.5, 0.4)], "gigpo": [result(0.4, 0.3), result(0.6, 0.5)]}
    told = summarise(arms)
    assert told["grpo"]["success"] == [0.3, 0.5]
    assert told["grpo"]["mean"] == pytest.approx(0.4)
    assert told["gigpo"]["greedy"] == [0.3, 0.5]
    assert told["difference"]["of"] == "gigpo - grpo"
    np.testing.assert_allclose(told["difference"]["success"], [0.1, 0.1])
    np.testing.assert_allclose(told["difference"]["ci95"], [0.1, 0.1])  # both seeds agree: no width
    assert told["before"] == pytest.approx(0.25)


def write_run(folder: Path, tokens, success):
    folder.mkdir()
    lines = [{"iteration": 0, "eval": {}}]
    lines += [{"generated_tokens": t, "rollout": {"success": s}} for t, s in zip(tokens, success, strict=True)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"half')


def test_curves_average_seeds_over_equal_spans_of_tokens(tmp_path):
    write_run(tmp_path / "a-0", [10, 20, 30, 40], [0.0, 0.2, 0.4, 0.6])
    write_run(tmp_path / "a-1", [10, 20, 30, 44], [0.2, 0.4, 0.6, 0.8])
    line = curves(tmp_path, ["a"], [0, 1], points=2)["a"]
    assert line["x"] == [20, 40]
    np.testing.assert_allclose(line["mean"], [0.2, 0.6])  # (0 + .2 + .2 + .4) / 4, (.4 + .6 + .6 + .8) / 4
    assert all(0 <= lo <= mean <= hi <= 1 for lo, mean, hi in zip(line["lo"], line["mean"], line["hi"], strict=True))


def test_the_scorer_gives_the_probabilities_that_the_policy_samples_with():
    pytest.importorskip("torch")
    from apportion.bench.demo.scorer import scorer
    from apportion.envs import make
    from apportion.train import TrainConfig
    from apportion.train.policy import Policy
    from apportion.train.rollout import Collector

    config = TrainConfig(env="crafttree", hidden=16, layers=1, heads=2, temperature=0.7)
    collector = Collector("crafttree", {})
    policy = Policy.from_config(config, make("crafttree"))
    played = collector.collect(policy, range(3), rollouts=2)
    steps = [step for trajectory in played.trajectories for step in trajectory.steps]
    found = scorer(policy)([step.observation for step in steps], [step.actions for step in steps])
    for step, p in zip(steps, found, strict=True):
        assert p.sum() == pytest.approx(1)
        chosen = policy.choices(step.actions).ids.index(tuple(step.ids.tolist()))
        assert math.log(p[chosen]) == pytest.approx(float(np.sum(step.logp)), abs=1e-4)


def test_a_stopped_demo_goes_on_and_a_finished_one_starts_anew(tmp_path):
    pytest.importorskip("torch")
    from apportion.bench.demo.run import _prepare

    _prepare(tmp_path, "quick")
    run = tmp_path / "grpo-0"
    run.mkdir()
    _prepare(tmp_path, "quick")
    assert run.exists()  # stopped: kept
    _prepare(tmp_path, "full")
    assert not run.exists()  # another size
    run.mkdir()
    (tmp_path / "summary.json").write_text("{}")
    (tmp_path / "mine.txt").write_text("keep")
    _prepare(tmp_path, "full")
    assert not run.exists()  # finished
    assert not (tmp_path / "summary.json").exists()
    assert (tmp_path / "mine.txt").read_text() == "keep"


@pytest.mark.parametrize("package", ["torch", "minigrid"])
def test_a_missing_package_is_told_before_anything_is_touched(package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"the demo needs the package '{package}'.*'apportion\[train,envs\]'"):
        run_demo(tmp_path / "demo", size="quick")
    assert not (tmp_path / "demo").exists()


def test_no_bar_of_cloning_goes_back(tmp_path, monkeypatch):
    def train(config, *, on_progress):
        for progress in (Progress("clone", 1, 2), Progress("clone", 2, 2), Progress("evaluate", 0, 0)):
            on_progress(progress)

    monkeypatch.setattr(learning, "train", train)
    told: dict[str, list[float]] = {}
    clone_policy(TrainConfig(), tmp_path, lambda label, share: told.setdefault(label, []).append(share))
    assert told == {"clone an expert": [0, 0.5, 1], "evaluate the clone": [0, 1]}


def test_what_is_left_of_a_run_without_its_settings_starts_anew(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(learning, "train", lambda config, resume: asked.append(resume))
    (tmp_path / "checkpoints" / "000000").mkdir(parents=True)
    learning._run(TrainConfig(out=str(tmp_path)))
    assert not tmp_path.exists()
    (tmp_path / "checkpoints" / "000000").mkdir(parents=True)
    (tmp_path / "config.json").touch()
    learning._run(TrainConfig(out=str(tmp_path)))
    assert asked == [False, True]
