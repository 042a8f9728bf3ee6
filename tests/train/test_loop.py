"""Whole runs: they survive kill -9, count their tokens, and two methods see the same tasks and draws."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from apportion.assign import assign
from apportion.data import Batch
from apportion.data.jsonl import read_jsonl
from apportion.errors import CheckpointError, ConfigError
from apportion.models.checkpoint import checkpoints
from apportion.train import TrainConfig, train
from apportion.train.metrics import MetricsLog, read_metrics
from apportion.train.result import Progress


def numbers(result_or_folder):
    """Metrics without what depends on the machine."""
    lines = read_metrics(f"{getattr(result_or_folder, 'folder', result_or_folder)}/metrics.jsonl")
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


def weights(folder):
    return (folder / "policy" / "model.safetensors").read_bytes()


def test_a_run_leaves_what_it_promises(config, tmp_path):
    stages = []
    settings = config(clone_episodes=4, clone_epochs=1, dump_every=2, tensorboard=True, kl_coef=0.01, minibatches=2)
    result = train(settings, on_progress=lambda p: stages.append((p.stage, p.done, p.total)))
    assert TrainConfig.from_file(result.folder / "config.json") == settings
    lines = result.metrics
    assert [line["iteration"] for line in lines] == [0, 1, 2, 3]
    assert lines[0]["clone"]["demonstrations"] == 4
    assert [i for i, line in enumerate(lines) if "eval" in line] == [0, 2, 3]
    assert result.before == lines[0]["eval"]
    assert result.after == lines[3]["eval"]
    assert set(result.after) == {f"{a}_{b}" for a in ("success", "return", "steps") for b in ("greedy", "sampled")}
    assert result.generated_tokens == lines[3]["generated_tokens"] > 0
    assert lines[3]["episodes"] == 18
    for line in lines[1:]:
        assert line["train"]["logp_drift"] < 1e-5
        assert 0 <= line["seconds"]["credit_share"] < 1
        assert line["credit"]["groups"] == 2
    assert 0 < result.credit_share < 1
    assert sorted(p.name for p in (result.folder / "rollouts").iterdir()) == ["000000.jsonl", "000002.jsonl"]
    batch = Batch.from_trajectories(read_jsonl(result.folder / "rollouts" / "000002.jsonl"))
    assert len(batch) == 6
    assert batch.logp_T is not None
    assert list((result.folder / "tensorboard").iterdir())
    assert json.loads((result.folder / "result.json").read_text())["after"] == result.after
    assert stages[0] == ("clone", 1, 1)
    assert stages[-1] == ("train", 3, 3)
    # the policy of one run is the start of another
    again = train(config(start=str(result.folder / "policy"), iterations=0, out=str(tmp_path / "next")))
    assert again.before == result.after
    assert weights(again.folder) == weights(result.folder)


def test_equal_settings_give_equal_numbers(config, tmp_path):
    one = train(config(out=str(tmp_path / "one"), clone_episodes=3, clone_epochs=1))
    two = train(config(out=str(tmp_path / "two"), clone_episodes=3, clone_epochs=1))
    assert numbers(one) == numbers(two)
    assert weights(one.folder) == weights(two.folder)
    other = train(config(out=str(tmp_path / "other"), clone_episodes=3, clone_epochs=1, seed=1))
    assert numbers(other) != numbers(one)


def test_methods_see_the_same_tasks_and_draws(config, tmp_path):
    runs = [
        train(config(out=str(tmp_path / m), method=m, iterations=1, dump_every=1, eval_tasks=0, seed=5))
        for m in ("grpo", "gigpo")
    ]
    first, second = (read_jsonl(r.folder / "rollouts" / "000000.jsonl") for r in runs)
    assert [t.group for t in first] == [t.group for t in second]
    assert [[s.action for s in t.steps] for t in first] == [[s.action for s in t.steps] for t in second]


def test_tasks_of_training_evaluation_and_cloning_are_apart(config, tmp_path):
    seen = set()
    for seed in (0, 1):
        result = train(config(out=str(tmp_path / str(seed)), seed=seed, dump_every=1, eval_tasks=0, iterations=2))
        for file in (result.folder / "rollouts").iterdir():
            groups = {t.meta["seed"] for t in read_jsonl(file)}
            assert len(groups) == 2
            assert not groups & seen
            assert min(groups) >= 10_000_000
            seen |= groups


def test_the_rate_rises_and_then_stays(config):
    result = train(config(lr=1e-3, warmup=4, iterations=6, eval_tasks=0))
    rates = [line["train"]["lr"] for line in result.metrics[1:]]
    assert rates == pytest.approx([2.5e-4, 5e-4, 7.5e-4, 1e-3, 1e-3, 1e-3])


def test_the_token_budget_ends_the_run(config):
    result = train(config(token_budget=60, iterations=50, eval_every=0))
    assert 60 <= result.generated_tokens < 60 + 6 * 9
    assert result.iterations < 50
    lines = result.metrics
    assert lines[-2]["generated_tokens"] < 60
    assert "eval" in lines[-1]


def test_growing_contexts_and_free_text_train_too(config, tmp_path):
    result = train(
        config(env="tests/copy", actions="text", prompt="history", max_action_tokens=6, clone_episodes=8,
               clone_epochs=2, loss="gspo_token", entropy_coef=0.01)
    )  # fmt: skip
    assert all(line["train"]["logp_drift"] < 1e-5 for line in result.metrics[1:])


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "grpo | whiten", "unit": "step", "loss": "cispo"},
        {"method": "dr_grpo + 0.5*anchor", "unit": "step", "aggregation": "seq-mean-token-sum-norm",
         "aggregation_length": 9, "epochs": 2, "minibatches": 2},
        {"method": "rloo", "loss": "reinforce", "rows": "sequence", "aggregation": "seq-mean-token-mean"},
    ],
)  # fmt: skip
def test_methods_and_losses_combine(config, changes):
    result = train(config(iterations=2, eval_tasks=0, **changes))
    assert all(np.isfinite(line["train"]["loss"]) for line in result.metrics[1:])


KILLED = """
import json, os, signal, sys
from pathlib import Path
import tests.train.make
from apportion.train import TrainConfig, train
from apportion.train.learner import Learner

config = TrainConfig.from_mapping(json.loads(sys.argv[1]))
at, resume = int(sys.argv[2]), sys.argv[3] == "resume"
done = Learner.learn
def update(self, index, tokens):
    out = done(self, index, tokens)
    if index == at:  # the policy has moved, nothing about it is written yet
        os.kill(os.getpid(), signal.SIGKILL)
    return out
Learner.learn = update
train(config, resume=resume)
"""


def run_killed(config, at, resume):
    return subprocess.run(
        [sys.executable, "-c", KILLED, json.dumps(config.to_mapping()), str(at), "resume" if resume else "start"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_a_killed_run_goes_on_to_the_same_numbers(config, tmp_path):
    fields = {"iterations": 5, "checkpoint_every": 2, "clone_episodes": 3, "clone_epochs": 1, "kl_coef": 0.1,
              "minibatches": 2}  # fmt: skip
    whole = train(config(out=str(tmp_path / "whole"), **fields))
    broken = config(out=str(tmp_path / "broken"), **fields)
    died = run_killed(broken, 3, resume=False)  # in iteration 4; the checkpoint is of iteration 2
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert [line["iteration"] for line in numbers(broken.out)] == [0, 1, 2, 3]
    assert [p.name for p in checkpoints(tmp_path / "broken" / "checkpoints")] == ["000000", "000002"]
    again = run_killed(broken, 4, resume=True)  # killed once more, in the last iteration
    assert again.returncode == -signal.SIGKILL, again.stderr
    resumed = train(broken, resume=True)
    assert numbers(resumed) == numbers(whole)
    assert weights(resumed.folder) == weights(whole.folder)
    assert (resumed.before, resumed.after) == (whole.before, whole.after)
    assert resumed.generated_tokens == whole.generated_tokens


@pytest.mark.slow
def test_killed_anywhere_at_any_time(config, tmp_path):
    """As a user's machine does it: from outside, at moments that nobody chose."""
    fields = {"iterations": 12, "checkpoint_every": 1, "clone_episodes": 3, "clone_epochs": 1}
    whole = train(config(out=str(tmp_path / "whole"), **fields))
    broken = config(out=str(tmp_path / "broken"), **fields)
    for k in range(6):
        resume = bool(checkpoints(tmp_path / "broken" / "checkpoints"))
        if not resume and k:
            continue
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, json.dumps(broken.to_mapping()), "99", "resume" if resume else "start"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        begun, target = time.monotonic(), len(checkpoints(tmp_path / "broken" / "checkpoints"))
        while process.poll() is None and time.monotonic() - begun < 60:
            newest = checkpoints(tmp_path / "broken" / "checkpoints")
            if newest and (not resume or int(newest[-1].name) >= min(11, 2 * k + 1) or target == 0):
                break
            time.sleep(0.01)
        time.sleep(0.03 * k)
        process.send_signal(signal.SIGKILL)
        process.wait()
    resumed = train(broken, resume=True)
    assert numbers(resumed) == numbers(whole)
    assert weights(resumed.folder) == weights(whole.folder)


def test_a_finished_run_can_be_continued(config, tmp_path):
    train(config(iterations=2))
    longer = train(config(iterations=4), resume=True)
    assert [line["iteration"] for line in longer.metrics] == [0, 1, 2, 3, 4]
    whole = train(config(iterations=4, out=str(tmp_path / "whole")))
    assert weights(longer.folder) == weights(whole.folder)


def test_runs_are_not_overwritten_or_mixed(config):
    train(config(iterations=1))
    with pytest.raises(ConfigError, match=r"run holds a run already; resume it, or give another out"):
        train(config(iterations=1))
    with pytest.raises(CheckpointError, match=r"was started with lr = 0\.001 and is resumed with 0\.002; give the old"):
        train(config(lr=2e-3), resume=True)
    with pytest.raises(CheckpointError, match="holds no run; start without resuming"):
        train(config(out=str(config().out) + "-none"), resume=True)


def test_metrics_of_a_run_that_is_going_on_can_be_read(tmp_path):
    log = MetricsLog(tmp_path, tensorboard=False)
    log.write(1, {"a": 1.5, "b": {"c": float("nan")}})
    (tmp_path / "metrics.jsonl").open("ab").write(b'{"iteration": 2, "a"')
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"iteration": 1, "a": 1.5, "b": {"c": None}}]
    with pytest.raises(CheckpointError, match="is shorter than at the checkpoint"):
        MetricsLog(tmp_path, size=10_000, tensorboard=False)


def test_unknown_models_and_experts_are_named(config):
    with pytest.raises(ConfigError, match="no model can be loaded from '/nowhere'"):
        train(config(model="/nowhere"))


def test_progress_is_plain_data():
    assert Progress("train", 1, 2).metrics == {}


def test_evaluation_can_play_another_variant_than_training(config):
    settings = config(eval_options={"horizon": 2})
    result = train(settings)
    assert max(result.before["steps_greedy"], result.after["steps_sampled"]) <= 2
    assert result.metrics[1]["rollout"]["steps"] > 2
    same = train(config(eval_options={"horizon": 2}, out=f"{settings.out}-again"))
    assert same.after == result.after


def test_an_option_of_evaluation_that_the_environment_lacks_ends_the_run_before_it_begins(config):
    settings = config(eval_options={"horzon": 2})
    with pytest.raises(ConfigError, match="horzon"):
        train(settings)


def test_credit_can_come_from_a_function_that_sees_the_policy(config):
    def as_gigpo(units, policy):
        seen.append(len(policy.tokenizer))
        return assign("gigpo", units)

    seen: list[int] = []
    by_function = train(config(method="grpo", unit="step", out=f"{config().out}-function"), credit_by=as_gigpo)
    by_name = train(config(method="gigpo"))
    assert len(seen) == 3
    assert weights(by_function.folder) == weights(by_name.folder)
    assert weights(train(config(method="grpo", unit="step", out=f"{config().out}-grpo")).folder) != weights(
        by_name.folder
    )
