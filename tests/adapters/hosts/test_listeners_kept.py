"""What live checks have counted is kept in the checkpoints of TRL and verl, and goes on where a run is resumed."""

import json

import pytest

from apportion.adapters.listening import FILE, read_listeners, write_listeners
from apportion.check import CollapseMonitor, LiveCheck
from apportion.credit.listeners import restore_states, states_of
from apportion.errors import DataError


class Counter:
    """A listener with a memory."""

    def __init__(self):
        self.heard = []

    def __call__(self, credit, step):
        self.heard.append(int(step))
        return {"count/heard": float(len(self.heard))}

    def state(self):
        return {"heard": self.heard}

    def restore(self, state):
        self.heard = list(state["heard"])


def plain(credit, step):
    return {}


def test_states_find_their_listeners_by_class_and_order():
    a, b = Counter(), Counter()
    a.heard, b.heard = [1], [2]
    states = json.loads(json.dumps(states_of([plain, a, LiveCheck(), b])))
    assert [one["listener"] for one in states] == ["Counter", "LiveCheck", "Counter"]
    c, d, e = Counter(), Counter(), Counter()
    restore_states([CollapseMonitor(), c, plain, d, e], states)
    assert (c.heard, d.heard, e.heard) == ([1], [2], [])


def test_files_are_written_where_there_is_something_and_read_where_they_are(tmp_path):
    write_listeners(tmp_path / "none", [plain])
    assert not (tmp_path / "none").exists()
    first, second = Counter(), Counter()
    first.heard = [3, 4]
    write_listeners(tmp_path / "a", [plain, first])
    read_listeners(tmp_path / "a", [second])
    assert second.heard == [3, 4]
    read_listeners(tmp_path, [second])  # a checkpoint without the file
    assert second.heard == [3, 4]


@pytest.mark.parametrize("text", ["{", "3", '[{"listener": "Counter"}]', "[{}]"])
def test_a_broken_file_is_a_sentence(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(DataError, match=f"{FILE}: .*remove the file to let the live checks begin anew"):
        read_listeners(tmp_path, [Counter()])


@pytest.mark.xdist_group("trl")
def test_trl_keeps_them(tmp_path, monkeypatch):
    pytest.importorskip("trl", reason="TRL is not installed (pip install 'apportion[trl]')")
    from tests.adapters.hosts import trl_run

    def run(steps, *listeners):
        config = {"max_steps": steps, "save_strategy": "steps", "save_steps": 2, "save_only_model": False}
        (tmp_path / "run").mkdir(exist_ok=True)
        trl_run.main(tmp_path / "run", model, "gigpo", unit="step", config=config, on_credit=list(listeners))

    model = trl_run.saved_model(tmp_path)
    cut, monitor = Counter(), CollapseMonitor()
    run(2, cut, monitor)
    checkpoint = tmp_path / "run" / "checkpoint-2"
    assert json.loads((checkpoint / FILE).read_text())[0]["state"] == {"heard": cut.heard}
    plainly = trl_run.GRPOTrainer.train
    monkeypatch.setattr(
        trl_run.GRPOTrainer, "train", lambda self: plainly(self, resume_from_checkpoint=str(checkpoint))
    )
    rest, watched = Counter(), CollapseMonitor()
    run(4, rest, watched)
    assert rest.heard == [0, 1, 2, 3]
    assert watched.state()["repetitive"]["quiet"] == 4


def test_verl_keeps_them(tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'apportion[train]')")
    import importlib.util
    import sys
    import types

    from apportion.adapters.verl import contract, stage
    from apportion.adapters.verl import settings as module
    from tests.adapters.hosts.test_verl_memory import Trainer
    from tests.adapters.hosts.verl_hosts import Fields, StandIn

    host = StandIn()
    stage.take_place(host.module)
    if importlib.util.find_spec("tensordict") is None:
        monkeypatch.setitem(sys.modules, "tensordict", types.SimpleNamespace(TensorDict=Fields))
    monkeypatch.setattr(contract, "version", lambda: "0.9.1")
    monkeypatch.setattr(module, "_MADE", {})
    made = []

    def listener(*_):
        made.append(Counter())
        return made[-1]

    monkeypatch.setattr(module, "_listener", listener)
    real = Trainer.__init__.__globals__["config"]
    monkeypatch.setitem(
        Trainer.__init__.__globals__, "config", lambda name, section: real(name, {**section, "on_credit": "here:it"})
    )
    Trainer(host, tmp_path, method="gigpo").train(1, 2)
    assert made[0].heard == [1, 2]
    module._MADE.clear()  # another process
    Trainer(host, tmp_path, method="gigpo").train(3)
    assert made[1].heard == [1, 2, 3]
