"""`apportion train --watch-collapse`: a run that is destroyed on purpose ends with a reason, a healthy one does not."""

import json

import pytest

from apportion.cli.run import run
from apportion.train.metrics import read_metrics

QUICK = (
    "train --env tests/copy --set env_options.words=2 --hidden 32 --layers 1 --heads 2 --vocabulary 300 --actions text "
    "--max-action-tokens 10 --method grpo --clone-episodes 40 --clone-epochs 25 --clone-lr 0.01 --tasks 3 --rollouts 4 "
    "--iterations 8 --eval-tasks 0 --tensorboard false --warmup 1 --watch-collapse --json"
).split()


@pytest.mark.parametrize(("lr", "ends"), [("0.5", True), ("1e-4", False)])
def test_a_policy_that_is_destroyed_writes_up_to_the_limit_and_is_stopped(lr, ends, tmp_path, capsys):
    status = run([*QUICK, "--lr", lr, "--out", str(tmp_path / "run")])
    out, _ = capsys.readouterr()
    stopped = json.loads(out)["stopped"]
    lines = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert status == int(ends)
    assert lines[1]["collapse"]["clip_rate"] < 0.5
    if not ends:
        assert stopped is None
        return
    assert "by clip_rate" in stopped
    assert "responses were cut off at the limit, more than 0.5 since step" in stopped
    assert [line["collapse"]["clip_rate"] > 0.5 for line in lines[-3:]] == [True] * 3
    assert lines[-1]["stopped"] == stopped
    assert len(lines) < 9
