"""``apportion models`` end to end: fit, stop, go on, measure, predict, and credit with what was predicted."""

import json
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import apportion as ap
from apportion.cli.models import ABOUT
from apportion.cli.run import run
from apportion.models import KINDS, load
from tests.models.test_value_head import coin

FIT = ["models", "fit", "value_head", "runs.jsonl", "--level", "step", "--lr", "3e-3", "--batch-tokens", "256"]


@pytest.fixture
def told(capsys, tmp_path, monkeypatch):
    """Calls a command beside ``runs.jsonl``; gives its status, its words and what it said beside them."""
    monkeypatch.chdir(tmp_path)
    ap.write("runs.jsonl", coin(24, 0))
    ap.write("fresh.jsonl", coin(24, 1))

    def call(*arguments):
        status = run(list(arguments))
        out, err = capsys.readouterr()
        return status, out, err

    return call


def test_the_list_is_that_of_the_models_and_needs_no_torch(told, monkeypatch):
    assert {name: model.__doc__.partition("\n")[0].partition(" Make it")[0] for name, model in KINDS.items()} == ABOUT
    for name in [name for name in sys.modules if name.startswith(("torch", "transformers", "apportion.models"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, out, err = told("models", "list", "--json")
    assert status == 0, err
    assert json.loads(out)["models"] == ABOUT
    status, _, err = told("models", "fit", "valu_head", "runs.jsonl", "--out", "values")
    assert status == 2
    assert "no credit model is named 'valu_head'; there are value_head" in " ".join(err.split())
    assert told("models", "fit", "value_head", "runs.jsonl", "--out", "values")[0] != 0


def test_fit_measure_predict_credit(told):
    status, out, err = told(*FIT, "--epochs", "2", "--out", "values", "--json")
    assert status == 0, err
    fitted = json.loads(out)
    assert fitted["schema"] == "apportion.models.fit/1"
    assert (len(fitted["losses"]), fitted["settings"]["epochs"]) == (2, 2)

    status, out, err = told("models", "eval", "fresh.jsonl", "--model", "values", "--json")
    assert status == 0, err
    model = load("values")
    fresh = ap.read("fresh.jsonl")
    want = model.predict(fresh)
    came = want.outcome_N[want.traj_of_S]
    assert json.loads(out)["error"][0] == pytest.approx(float(np.mean((want.value_S - came) ** 2)), rel=1e-4)

    status, _, err = told("models", "predict", "fresh.jsonl", "--model", "values", "--out", "valued.jsonl")
    assert status == 0, err
    np.testing.assert_allclose(ap.read("valued.jsonl").value_S, want.value_S)

    status, _, err = told("assign", "valued.jsonl", "--method", "step_gae", "--out", "a.jsonl")
    assert status == 0, err
    status, _, err = told("assign", "fresh.jsonl", "--method", "step_gae", "--values", "values", "--out", "b.jsonl")
    assert status == 0, err
    a, b = (ap.read_credit(name).advantage_S for name in ("a.jsonl", "b.jsonl"))
    np.testing.assert_array_equal(a, b)


def test_a_fit_goes_on(told):
    assert told(*FIT, "--epochs", "1", "--out", "a")[0] == 0
    status, out, err = told(*FIT, "--epochs", "2", "--out", "a", "--resume", "--json")
    assert status == 0, err
    assert told(*FIT, "--epochs", "2", "--out", "b")[0] == 0
    assert json.loads(out)["resumed"] == 1
    fresh = ap.read("fresh.jsonl")
    a, b = (load(name).predict(fresh).value_S for name in "ab")
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["models", "fit", "oracle", "runs.jsonl", "--out", "o"],
            "no credit model is named 'oracle'; there are value_head",
        ),
        ([*FIT, "--out", "o", "--epocs", "2"], "fitting has no setting 'epocs'"),
        ([*FIT, "--out", "o", "--resume"], "o holds no checkpoint to resume from"),
        (["models", "eval", "runs.jsonl", "--model", "o"], "no credit model is there"),
        (["assign", "runs.jsonl", "--method", "step_gae", "--values", "o"], "no credit model is there"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(told, arguments, says):
    status, out, err = told(*arguments)
    assert status in (1, 2)
    assert says in " ".join(err.split())
    assert "Traceback" not in err
    assert not out


def test_the_list_names_every_model(told):
    status, out, _ = told("models", "list")
    assert status == 0
    assert "value_head" in out
    assert "Values of states" in out
