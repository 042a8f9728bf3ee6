"""A listener ends a run of TRL: a planted collapse stops it, and the run says why."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="TRL is not installed (pip install 'apportion[trl]')")
pytestmark = pytest.mark.xdist_group("trl")

from apportion.check import LiveCheck  # noqa: E402
from tests.adapters.hosts import trl_run  # noqa: E402


def looping(step, row, prompt_ids):
    """From step 1 on the policy says one word for ever."""
    size = 40 if step else 8
    said = [5] * size if step else [3 + (row * 7 + k * 5) % 11 for k in range(size)]
    said[-1] = 1  # the end, so that no limit cut it off
    return {
        "prompt_ids": prompt_ids,
        "completion_ids": said,
        "logprobs": [-1.0] * size,
        "env_mask": [1] * size,
        "steps": [(0, size)],
        "step_rewards": [float(row % 2)],
        "states": ["start"],
        "scored": True,
    }


def run(tmp_path, monkeypatch, live):
    monkeypatch.setattr(trl_run, "rollout", looping)
    (tmp_path / "run").mkdir()
    settings = {"max_steps": 6, "max_completion_length": 48}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer = trl_run.main(
            tmp_path / "run", trl_run.saved_model(tmp_path), "grpo", config=settings, on_credit=[live]
        )
    return trainer, [str(w.message) for w in told]


def test_a_collapse_stops_the_run_and_says_why(tmp_path, monkeypatch):
    trainer, told = run(tmp_path, monkeypatch, LiveCheck(stop={"repetition": 0.5, "pseudo-positive": 2.0}, patience=2))
    assert trainer.state.global_step == 3  # batches at steps 1 and 2 loop; the update of the second is the last
    assert trainer.credit_stopped.startswith("stopped at step 2 by 'repetition', 2 batches in a row: 12 of 12 rollouts")
    assert trainer.credit_stopped in told
    logged = [entry["check/repetition"] for entry in trainer.state.log_history if "check/repetition" in entry]
    assert logged == [0.0, 1.0, 1.0]


@pytest.mark.slow
def test_every_process_stops_at_the_same_step(tmp_path):
    """Only the main process looks; without the word to the others they would wait for each other for ever."""
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        __file__,
        str(tmp_path),
    ]
    root = str(Path(__file__).resolve().parents[3])
    env = {**os.environ, "PYTHONPATH": root}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    told = [json.loads((tmp_path / f"stopped-{rank}.json").read_text()) for rank in range(2)]
    assert [row["step"] for row in told] == [3, 3]
    assert told[0]["reason"] == told[1]["reason"]
    assert told[0]["reason"].startswith("stopped at step 2 by 'repetition'")


def test_counting_alone_stops_nothing(tmp_path, monkeypatch):
    trainer, _ = run(tmp_path, monkeypatch, LiveCheck(stop=None))
    assert trainer.state.global_step == 6
    assert trainer.credit_stopped is None


if __name__ == "__main__":  # one of two processes
    trl_run.rollout = looping
    folder = Path(sys.argv[1])
    rank = os.environ["RANK"]
    (folder / "run").mkdir(exist_ok=True)
    made = trl_run.main(
        folder / "run",
        trl_run.saved_model(folder),
        "grpo",
        config={"max_steps": 6, "max_completion_length": 48},
        on_credit=[LiveCheck(stop={"repetition": 0.5, "pseudo-positive": 2.0}, patience=2)],
    )
    told = {"step": made.state.global_step, "reason": made.credit_stopped}
    (folder / f"stopped-{rank}.json").write_text(json.dumps(told))
