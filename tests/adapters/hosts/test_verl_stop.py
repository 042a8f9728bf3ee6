"""A listener named in verl's configuration: its numbers are in the trainer's metrics, and it can end the run."""

import importlib.util
import itertools
import sys
import types

import pytest

from apportion.adapters.verl import contract, stage
from apportion.adapters.verl.settings import settings_from
from apportion.check import LiveCheck
from apportion.errors import ConfigError, StopRun
from tests.adapters.hosts.test_verl_legacy import agent_rows, data_of, fork
from tests.adapters.hosts.verl_hosts import Fields, StandIn, batch_of_rows, config

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'apportion[train]')")


def strict(credit, step, seen={}):  # noqa: B006 - one check for the run, as a user's module holds one
    """Ends a run whose groups all became constant, on the second such batch in a row."""
    live = seen.setdefault("live", LiveCheck(stop={"constant-group": 1.0, "clip-rate": 2.0}, patience=2))
    return live(credit, step)


def at_once(credit, step):
    """Ends every run."""
    raise StopRun("it is enough", {"check/mine": 1.0})


not_callable = 3
WHERE = f"{__name__}:strict"


@pytest.fixture
def trainer(monkeypatch):
    """verl's loop with our stage in it, on a stand-in; the third batch on, every rollout has the same outcome."""
    host = StandIn()
    stage.take_place(host.module)
    if importlib.util.find_spec("tensordict") is None:
        monkeypatch.setitem(sys.modules, "tensordict", types.SimpleNamespace(TensorDict=Fields))
    monkeypatch.setattr(contract, "version", lambda: "0.9.1")
    section = {"on_credit": WHERE}
    made = types.SimpleNamespace(
        config=config("apportion/grpo", section), global_steps=1, total_training_steps=20, logged=[]
    )

    def fit():
        for step in itertools.count(1):
            rows = batch_of_rows(step)
            for row in rows:
                row["extra_fields"].pop("step_rewards")
                row["score"] = 1.0 if step > 2 else row["score"]
            host.put(rows, f"train-{step}")
            meta = host.meta([row["key"] for row in rows], [{} for _ in rows], f"train-{step}")
            metrics = {}
            host.module.PPOTrainer._compute_advantage(made, meta, metrics)
            made.logged.append(metrics)
            made.global_steps += 1
            if made.global_steps > made.total_training_steps:  # as verl's own loop asks after each step
                return

    made.fit = fit
    return made


def test_a_collapse_ends_the_loop_and_says_why(trainer):
    with pytest.warns(UserWarning, match="stopped at step 4 by 'constant-group', 2 batches in a row: 3 of 3 groups"):
        trainer.fit()
    assert trainer.global_steps == 5
    assert [metrics["check/constant-group"] for metrics in trainer.logged] == [0.0, 0.0, 1.0, 1.0]
    assert trainer.apportion_stopped.startswith("stopped at step 4")


def test_where_no_trainer_is_known_the_reason_is_raised():
    module, settings = fork("grpo", on_credit=f"{__name__}:at_once")
    rows = agent_rows(0)
    data = module.adjust_batch(settings, data_of(rows), range(len(rows)))
    data.meta_info["global_steps"] = 1
    with pytest.raises(StopRun, match="it is enough"):
        module.compute_advantage(data, "gigpo")


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("nowhere", "on_credit is 'nowhere'; name a function as 'package.module:function'"),
        ("apportion.check:Nobody", "cannot be imported"),
        (f"{__name__}:not_callable", "is a int; give a function"),
    ],
)
def test_a_wrong_name_is_a_sentence(where, sentence):
    with pytest.raises(ConfigError, match=sentence):
        settings_from("grpo", {"on_credit": where})


def test_a_class_is_made():
    assert isinstance(settings_from("grpo", {"on_credit": "apportion.check:LiveCheck"}).on_credit, LiveCheck)


def heard(credit, step):
    """Numbers for the log."""
    return {"check/step": float(step)}


def test_the_older_trainer_logs_hears_and_checks_though_its_batches_name_no_step(tmp_path):
    class RayPPOTrainer:
        def __init__(self, config, tokenizer=None):
            self.config, self.global_steps, self.logged = config, 0, []

        def fit(self):
            for self.global_steps in (1, 2):
                rows = agent_rows(self.global_steps)
                data = module.adjust_batch(self.config, data_of(rows), range(len(rows)))
                assert "global_steps" not in data.meta_info
                module.compute_advantage(data, "gigpo")
                self.logged.append({**module.compute_data_metrics(data, use_critic=False), "training/global_step": 1})

        def _save_checkpoint(self): ...
        def _load_checkpoint(self): ...

    own = {"compute_data_metrics": lambda batch, use_critic=True: {"critic/score/mean": 0.5}}
    module, settings = fork("gigpo", trainer=RayPPOTrainer, own=own, log=str(tmp_path), on_credit=f"{__name__}:heard")
    trainer = module.RayPPOTrainer(settings)
    trainer.fit()
    assert [metrics["check/step"] for metrics in trainer.logged] == [1.0, 2.0]
    assert all({"credit/mean_abs", "credit/groups", "critic/score/mean"} <= set(each) for each in trainer.logged)
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["step-000001", "step-000002"]
    assert "credit/groups" not in module.compute_data_metrics(None)  # of a batch that nobody's fit credited
    settings.algorithm.apportion["gama"] = 0.9
    with pytest.raises(ConfigError, match="unknown parameter 'gama'"):
        module.RayPPOTrainer(settings)
