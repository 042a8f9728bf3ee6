"""A listener ends a run of TRL: a planted collapse stops it, and the run says why."""

import warnings

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


def test_counting_alone_stops_nothing(tmp_path, monkeypatch):
    trainer, _ = run(tmp_path, monkeypatch, LiveCheck(stop=None))
    assert trainer.state.global_step == 6
    assert trainer.credit_stopped is None
