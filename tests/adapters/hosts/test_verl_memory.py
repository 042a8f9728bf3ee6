"""A method with a memory keeps it over verl's batches and in its checkpoints, on a stand-in and in verl itself."""

import importlib
import importlib.util
import inspect
import json
import types
from pathlib import Path

import numpy as np
import pytest

from apportion.adapters.memory import FILE
from apportion.errors import DataError
from tests.adapters.hosts.test_verl_legacy import agent_rows, data_of, fork
from tests.adapters.hosts.verl_hosts import (
    PRESENT,
    WHY,
    Config,
    batch_of_rows,
    config,
    padding_rows,
    run_stage,
)

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'apportion[train]')")


class Trainer(types.SimpleNamespace):
    """What verl's methods read of their trainer; its checkpoints are written and read by verl's own code."""

    def __init__(self, host, folder, method="pooled", **options):
        self.host, self.seen = host, []
        chosen = {"resume_mode": "auto", "resume_from_path": None, "default_hdfs_dir": None, **options}
        settings = config(f"apportion/{method}", {"unit": "step"})
        settings["trainer"] = Config(default_local_dir=str(folder), del_local_ckpt_after_load=False, **chosen)
        self.config = settings
        self.kl_ctrl_in_reward = types.SimpleNamespace(value=0.0, update=lambda **_: None)
        self.use_critic, self.trainer_mode = False, "sync"
        self.train_dataloader = types.SimpleNamespace(state_dict=dict, load_state_dict=lambda state: None)
        self.checkpoint_callback = types.SimpleNamespace(on_save=lambda **_: None)
        self.actor_rollout_wg = types.SimpleNamespace(
            save_checkpoint=lambda path, *_, **__: self.seen.append([p.name for p in Path(path).parent.glob("*")]),
            load_checkpoint=lambda **_: None,
        )
        host.module.PPOTrainer._load_checkpoint(self)

    def train(self, *seeds):
        """One step per seed, and a checkpoint at the end; the advantages of every step."""
        out = []
        for seed in seeds:
            self.global_steps += 1
            out.append(run_stage(self.host, batch_of_rows(seed), self.config, trainer=self)[0])
        self.host.module.PPOTrainer._save_checkpoint(self)
        return out


def same(a, b):
    for name in ("tick", "key", "count", "total", "evidence"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


def advantages(steps):
    return [np.concatenate([step[key]["advantages"] for key in sorted(step)]) for step in steps]


def test_a_resumed_run_remembers_what_the_whole_one_knew(host, tmp_path):
    whole = Trainer(host, tmp_path / "whole")
    all_steps = advantages(whole.train(1, 2, 3, 4))
    cut = Trainer(host, tmp_path / "cut")
    first = advantages(cut.train(1, 2))
    assert cut.credit_memory.tick == 2
    resumed = Trainer(host, tmp_path / "cut")
    assert resumed.global_steps == 2
    same(resumed.credit_memory, cut.credit_memory)
    second = advantages(resumed.train(3, 4))
    for got, want in zip(first + second, all_steps, strict=True):
        np.testing.assert_array_equal(got, want)
    same(resumed.credit_memory, whole.credit_memory)
    forgetful = Trainer(host, tmp_path / "new")  # the memory is what made the third step what it is
    assert not np.allclose(advantages(forgetful.train(3))[0], all_steps[2])


def test_the_memory_is_there_before_anything_names_the_checkpoint(host, tmp_path):
    trainer = Trainer(host, tmp_path / "run")
    trainer.train(1)
    assert trainer.seen == [[FILE]]  # while verl was about to save the actor
    told = json.loads((tmp_path / "run" / "global_step_1" / FILE).read_text())
    assert told["tick"] == 1
    assert len(told["key"]) == len(trainer.credit_memory) > 10
    trainer.train(2)
    back = Trainer(
        host, tmp_path / "other", resume_mode="resume_path", resume_from_path=str(tmp_path / "run/global_step_1")
    )
    assert (back.global_steps, back.credit_memory.tick) == (1, 1)
    assert Trainer(host, tmp_path / "run", resume_mode="disable").__dict__.get("credit_memory") is None


def test_other_methods_leave_no_file_and_read_none(host, tmp_path):
    trainer = Trainer(host, tmp_path / "run", method="gigpo")
    trainer.train(1)
    assert trainer.credit_memory.tick == 0
    assert not list((tmp_path / "run").rglob(FILE))
    path = tmp_path / "run" / "global_step_1" / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("not of this run")
    assert Trainer(host, tmp_path / "run", method="gigpo").global_steps == 1


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}', "3"])
def test_a_broken_memory_is_a_sentence(host, tmp_path, text):
    Trainer(host, tmp_path).train(1)
    path = tmp_path / "global_step_1" / FILE
    path.write_text(text)
    with pytest.raises(DataError, match=f"{FILE}: .*remove the file to start without a memory"):
        Trainer(host, tmp_path)
    path.unlink()
    assert Trainer(host, tmp_path).credit_memory.tick == 0


def test_a_run_with_another_gamma_does_not_go_on_with_the_memory(host, tmp_path):
    Trainer(host, tmp_path, method="pooled(gamma=0.9)").train(1)
    assert Trainer(host, tmp_path, method="pooled(gamma=0.9) | whiten").credit_memory.tick == 1
    with pytest.raises(
        DataError,
        match=rf"{FILE}: memory: its returns are of gamma=0\.9, and gamma is 1 now; .*remove the file to start without",
    ):
        Trainer(host, tmp_path)
    path = tmp_path / "global_step_1" / FILE
    told = json.loads(path.read_text())
    assert told.pop("gamma") == 0.9
    path.write_text(json.dumps(told))  # as it was before it was kept
    assert Trainer(host, tmp_path).credit_memory.tick == 1


def test_rows_that_verl_pads_with_are_not_remembered(host, tmp_path):
    plain, padded = Trainer(host, tmp_path / "a"), Trainer(host, tmp_path / "b")
    rows = batch_of_rows(5)
    run_stage(host, rows, plain.config, trainer=plain)
    run_stage(host, rows + padding_rows(rows, 2), padded.config, trainer=padded)
    same(plain.credit_memory, padded.credit_memory)
    back = list(reversed(rows))
    turned = Trainer(host, tmp_path / "c")
    run_stage(host, back, turned.config, trainer=turned)
    np.testing.assert_array_equal(turned.credit_memory.key, plain.credit_memory.key)
    np.testing.assert_allclose(turned.credit_memory.total, plain.credit_memory.total)


def test_a_whole_batch_that_nobody_scored_leaves_the_memory_alone(host, tmp_path):
    trainer = Trainer(host, tmp_path)
    run_stage(host, batch_of_rows(1), trainer.config, trainer=trainer)
    before = trainer.credit_memory
    run_stage(host, batch_of_rows(2, scored=False), trainer.config, trainer=trainer)
    same(trainer.credit_memory, before)
    assert before.tick == 1


class RayPPOTrainer:
    """The older trainer's loop: it resumes, hands each batch to a function that knows no trainer, and saves."""

    def __init__(self, module, home, steps):
        self.module, self.steps, self.seen = module, steps, []
        self.config = Config(
            algorithm=Config(adv_estimator="gigpo", apportion=Config(method="pooled")),
            trainer=Config(default_local_dir=str(home), resume_mode="auto", resume_from_path=None),
        )

    def fit(self):
        self.global_steps = 0
        self._load_checkpoint()
        while self.global_steps < self.steps:
            self.global_steps += 1
            rows = agent_rows(self.global_steps)
            data = self.module.adjust_batch(self.config, data_of(rows), range(len(rows)))
            self.seen.append(self.module.compute_advantage(data, "gigpo").batch["advantages"].numpy())
        self._save_checkpoint()

    def _save_checkpoint(self):
        (Path(self.config.trainer.default_local_dir) / "newest").write_text(str(self.global_steps))

    def _load_checkpoint(self):
        newest = Path(self.config.trainer.default_local_dir) / "newest"
        self.global_steps = int(newest.read_text()) if newest.exists() else 0


def test_the_older_trainer_remembers_too(tmp_path):
    def run(home, steps):
        module, _ = fork("pooled", trainer=type("RayPPOTrainer", (RayPPOTrainer,), {}))
        trainer = module.RayPPOTrainer(module, tmp_path / home, steps)
        (tmp_path / home).mkdir(exist_ok=True)
        trainer.fit()
        return trainer

    whole, cut = run("whole", 4), run("cut", 2)
    assert cut.credit_memory.tick == 2
    resumed = run("cut", 4)
    for got, want in zip(cut.seen + resumed.seen, whole.seen, strict=True):
        np.testing.assert_array_equal(got, want)
    same(resumed.credit_memory, whole.credit_memory)
    module, config = fork("pooled")  # nobody's fit is running: credited alone
    rows = agent_rows(3)
    alone = module.compute_advantage(module.adjust_batch(config, data_of(rows), range(len(rows))), "gigpo")
    assert not np.allclose(alone.batch["advantages"].numpy(), whole.seen[2])
    first = run("first", 1)
    assert first.seen[0] == pytest.approx(whole.seen[0])


@pytest.mark.skipif(not PRESENT, reason=WHY)
def test_verls_own_older_trainer_is_taken_too():
    module = importlib.import_module("verl.trainer.ppo.ray_trainer")
    for name in ("fit", "_save_checkpoint", "_load_checkpoint"):
        assert hasattr(getattr(module.RayPPOTrainer, name), "__wrapped__"), name
    assert hasattr(module.RayPPOTrainer.__init__, "__wrapped__")
    assert hasattr(module.compute_data_metrics, "__wrapped__")
    fit = inspect.unwrap(module.RayPPOTrainer.fit)
    assert {"compute_data_metrics", "compute_advantage"} <= set(fit.__code__.co_names)  # looked up in the module
