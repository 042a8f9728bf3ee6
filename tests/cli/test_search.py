"""``apportion models search`` end to end: a run, its rollouts, a model of them, and the search."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

import apportion as ap
from apportion.cli.run import run
from apportion.models import AgentPRM, ArCHerCritic, Backbone, ImplicitReward, TokenModel, ValueHead
from tests.train.make import SMALL

GAME = ("--set", "env_options.horizon=5", "--set", "env_options.budget=2")
TRAIN = ("train", "--env", "crafttree", "--iterations", "0", "--eval-tasks", "0", "--tensorboard", "false")
SIZE = [x for name in ("hidden", "layers", "heads", "vocabulary") for x in (f"--{name}", str(SMALL[name]))]
QUICK = ("--n", "3", "--width", "2", "--branch", "2", "--tasks", "3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an untrained run, its rollouts, and models that were fitted to them or to nothing."""
    torch.set_num_threads(1)
    here = tmp_path_factory.mktemp("search")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        assert run([*TRAIN, *SIZE, *GAME, "--out", "runs/mine"]) == 0
        assert run(["play", "runs/mine", "--tasks", "4", "--rollouts", "3", "--out", "runs.jsonl"]) == 0
        fit = ["models", "fit", "agentprm", "runs.jsonl", "--epochs", "1"]
        assert run([*fit, "--vocabulary", "400", "--out", "prm"]) == 0
        AgentPRM(Backbone("small", vocabulary=20)).save("narrow")
        trunk = {"vocabulary": 400}
        ValueHead(Backbone("small", **trunk), level="token").save("tokens")
        ValueHead(Backbone("small", **trunk), level="step").save("steps")
        ArCHerCritic(Backbone("small", **trunk)).save_model("archer")
        ImplicitReward(TokenModel("small", **trunk)).save("implicit")
    return here


@pytest.fixture
def told(folder, capsys, monkeypatch):
    """Calls a command in the folder; gives its status, its words and what it said beside them."""
    monkeypatch.chdir(folder)

    def call(*arguments):
        status = run(["models", "search", *map(str, arguments)])
        out, err = capsys.readouterr()
        return status, out, " ".join(err.split())

    return call


def test_from_a_run_to_what_a_search_found(told, tmp_path):
    out = tmp_path / "found"
    status, text, err = told("runs/mine", "--model", "prm", *QUICK, "--out", out, "--json")
    assert status == 0, err
    found = json.loads(text)
    assert found["schema"] == "apportion.models.search/1"
    names = [row["name"] for row in found["rows"]]
    assert names[:3] == ["one sample", "best of 3: at random", "best of 3: last promise"]
    assert "beam 2 x 2" in names
    for row in found["rows"]:
        assert 0 <= row["success"][1] <= row["success"][0] <= row["success"][2] <= 1
        assert row["costs"]["generated_tokens"] > 0
    assert (found["about"]["env"], found["about"]["env_options"]["budget"]) == ("crafttree", 2)
    written = ap.read(out / "trajectories.jsonl")
    beams = [t for t in written if t.meta["search"]["by"] == "beam"]
    assert len({t.group for t in beams}) == 3
    assert json.loads((out / "search.json").read_text())["rows"] == found["rows"]

    status, text, err = told("runs/mine", "--model", "prm", *QUICK, "--out", out, "--resume")
    assert status == 0, err
    assert "best of 3: true outcome" in text
    assert "difference of success" in text
    assert f"wrote {out}" in err


@pytest.mark.parametrize("model", ["steps", "archer"])
def test_other_models_that_say_what_is_to_come(told, model):
    status, text, err = told("runs/mine/policy", "--model", model, *QUICK, "--mode", "both", "--json")
    assert status == 0, err
    assert json.loads(text)["about"]["model"] == model


def test_best_of_n_alone_and_settings_of_the_environment(told):
    how = ("--mode", "best-of-n", "--score", "min", "--set", "env_options.budget=1", "--json")
    status, text, err = told("runs/mine", "--model", "prm", *QUICK, *how)
    assert status == 0, err
    found = json.loads(text)
    assert [row["name"] for row in found["rows"]][2] == "best of 3: min promise"
    assert not any("beam" in row["name"] for row in found["rows"])
    assert found["about"]["env_options"]["budget"] == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["runs/mine", "--model", "tokens"], "level 'token' gives values before tokens"),
        (["runs/mine", "--model", "implicit"], "ImplicitReward does not; fit agentprm"),
        (["runs/mine", "--model", "nowhere"], "nowhere: no credit model is there"),
        (["runs/mine", "--model", "narrow"], "so the search could end in the middle; fit it with --vocabulary"),
        (["runs", "--model", "prm"], "runs holds no policy"),
        (["runs/mine", "--model", "prm", "--mode", "beams"], "mode is 'beams'"),
        (["runs/mine", "--model", "prm", "--set", "lr=1"], "search reads no setting 'lr'"),
        (["runs/mine", "--model", "prm", "--env", "crafttee"], "did you mean 'crafttree'?"),
        (["runs/mine", "--model", "prm", "--resume"], "give --out"),
        (["runs/mine", "--model", "prm", "--resume", "--out", "none"], "none holds no search to go on with"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(told, arguments, says):
    status, out, err = told(*arguments, *QUICK)
    assert status in (1, 2)
    assert says in err
    assert "Traceback" not in err
    assert not out
