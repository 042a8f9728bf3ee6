"""``apportion models fit prm`` end to end: labels of people and from a file of credit, stop, go on, measure, credit."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import apportion as ap
from apportion.cli.run import run
from apportion.models import load
from tests.models.test_prm import labelled, truth
from tests.models.test_value_head import coin

FIT = ["models", "fit", "prm", "runs.jsonl", "--lr", "3e-3", "--batch-tokens", "256", "--vocabulary", "9"]


@pytest.fixture
def told(capsys, tmp_path, monkeypatch):
    """Calls a command beside ``runs.jsonl``; gives its status, its words and what it said beside them."""
    monkeypatch.chdir(tmp_path)
    ap.write("runs.jsonl", labelled(24, 0))
    ap.write("fresh.jsonl", labelled(24, 1))

    def call(*arguments):
        status = run(list(arguments))
        out, err = capsys.readouterr()
        return status, out, err

    return call


def test_fit_stop_go_on_measure_credit(told):
    assert told(*FIT, "--labels", "rating", "--epochs", "1", "--out", "a")[0] == 0
    status, out, err = told(*FIT, "--labels", "rating", "--epochs", "3", "--out", "a", "--resume", "--json")
    assert status == 0, err
    assert json.loads(out)["resumed"] == 1
    assert told(*FIT, "--labels", "rating", "--epochs", "3", "--out", "b")[0] == 0
    fresh = ap.read("fresh.jsonl")
    a, b = load("a"), load("b")
    np.testing.assert_array_equal(a.rewards(fresh), b.rewards(fresh))
    assert a.backbone.vocabulary == 9
    status, out, _ = told("models", "eval", "fresh.jsonl", "--model", "a", "--json")
    assert status == 0
    assert json.loads(out)["accuracy"][0] == pytest.approx(((a.rewards(fresh) > 0) == truth(fresh)).mean())
    status, _, err = told("assign", "fresh.jsonl", "--method", "pure", "--values", "a", "--out", "c.jsonl")
    assert status == 0, err
    want = ap.assign("pure", ap.by_step(fresh), values=a)
    np.testing.assert_array_equal(ap.read_credit("c.jsonl").advantage_S, want.advantage_S)


def test_labels_from_a_file_of_credit(told):
    batch = ap.read("runs.jsonl")
    ap.write("mc.jsonl", ap.Credit(truth(batch).astype(float), ap.by_step(batch)))
    assert told(*FIT, "--labels", "mc.jsonl", "--form", "soft", "--epochs", "2", "--out", "m")[0] == 0
    status, _, err = told("models", "eval", "runs.jsonl", "--model", "m")
    assert status == 1
    assert "fitted to numbers that are not in the rollouts; give labels" in " ".join(err.split())
    status, out, err = told("models", "eval", "runs.jsonl", "--model", "m", "--labels", "mc.jsonl", "--json")
    assert status == 0, err
    want = np.mean(((1 + load("m").rewards(batch)) / 2 - truth(batch)) ** 2)
    assert json.loads(out)["error"][0] == pytest.approx(want)


def test_a_model_of_outcomes_takes_no_labels(told):
    ap.write("coin.jsonl", coin(8, 0))
    assert told("models", "fit", "value_head", "coin.jsonl", "--epochs", "1", "--out", "v")[0] == 0
    status, _, err = told("models", "eval", "coin.jsonl", "--model", "v", "--labels", "rating")
    assert status == 2
    assert "v holds a ValueHead, which is measured by outcomes; drop --labels" in " ".join(err.split())
