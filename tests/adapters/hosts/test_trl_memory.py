"""A method with a memory keeps it through a run of TRL, and through a stop."""

import json

import numpy as np
import pytest

pytest.importorskip("trl", reason="TRL is not installed (pip install 'apportion[trl]')")
pytestmark = pytest.mark.xdist_group("trl")

from apportion.adapters.memory import FILE  # noqa: E402
from tests.adapters.hosts import trl_run  # noqa: E402

SAVING = {"save_strategy": "steps", "save_steps": 2, "save_only_model": False}


def run(folder, model, steps, method="pooled", **settings):
    folder.mkdir(exist_ok=True)
    return trl_run.main(folder, model, method, unit="step", config={"max_steps": steps, **SAVING, **settings})


def test_a_resumed_run_remembers_what_the_whole_one_knew(tmp_path, monkeypatch):
    model = trl_run.saved_model(tmp_path)
    whole = run(tmp_path / "whole", model, 4)
    assert whole.credit_memory.tick == 4
    assert len(whole.credit_memory) > 20
    cut = run(tmp_path / "cut", model, 2)
    checkpoint = tmp_path / "cut" / "checkpoint-2"
    assert json.loads((checkpoint / FILE).read_text())["tick"] == cut.credit_memory.tick == 2
    plainly = trl_run.GRPOTrainer.train
    monkeypatch.setattr(
        trl_run.GRPOTrainer, "train", lambda self: plainly(self, resume_from_checkpoint=str(checkpoint))
    )
    resumed = run(tmp_path / "cut", model, 4)
    for name in ("tick", "key", "count", "total", "evidence"):
        np.testing.assert_allclose(
            np.asarray(getattr(resumed.credit_memory, name), dtype=float),
            np.asarray(getattr(whole.credit_memory, name), dtype=float),
            rtol=1e-12,
        )
    seen = [json.loads((tmp_path / name / "rank-0.json").read_text())["seen"] for name in ("whole", "cut")]
    late = [row["advantage"] for row in seen[0] if row["step"] >= 2]
    assert len(late) == len(seen[1]) > 0
    for now, then in zip(seen[1], late, strict=True):
        np.testing.assert_allclose(now["advantage"], then, rtol=1e-6)


def test_other_methods_leave_no_file(tmp_path):
    trainer = run(tmp_path / "run", trl_run.saved_model(tmp_path), 2, method="gigpo")
    assert trainer.credit_memory.tick == 0
    assert not (tmp_path / "run" / "checkpoint-2" / FILE).exists()
