"""SWEET-RL on the command line, end to end: a run, its rollouts, a critic, pairs, a policy trained on them."""

import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch

import apportion as ap
from apportion.cli.run import run
from apportion.data.pairs import read_pairs
from apportion.train.saved import of_run
from tests.train import whisper  # noqa: F401 - registers the environment
from tests.train.make import SMALL

TRAIN = ["train", "--env", "tests/whisper", "--iterations", "0", "--eval-tasks", "0", "--tensorboard", "false"]
SIZE = [x for name in ("hidden", "layers", "heads", "vocabulary") for x in (f"--{name}", str(SMALL[name]))]
MARKER = "ZQ-7741-"


@pytest.fixture
def told(capsys, tmp_path, monkeypatch):
    """Calls a command in a folder with an untrained run and its rollouts."""
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)

    def call(*arguments, status=0):
        got = run([str(x) for x in arguments])
        out, err = capsys.readouterr()
        assert got == status, err
        return json.loads(out) if "--json" in arguments and not got else (out, err)

    call(*TRAIN, *SIZE, "--set", f"env_options.marker={MARKER}", "--out", "runs/actor")
    call("play", "runs/actor", "--tasks", 12, "--rollouts", 4, "--out", "runs.jsonl")
    return call


def test_from_rollouts_to_a_trained_policy(told):
    batch = ap.read("runs.jsonl")
    assert (len(batch), len(batch.group_names)) == (48, 12)
    assert all(rollout.reference.startswith(MARKER) for rollout in batch)
    fit = ("models", "fit", "sweet", "runs.jsonl", "--backbone", "runs/actor/policy", "--out", "critic", "--epochs", 2)
    told(*fit, "--lr", "3e-3", "--batch-tokens", 800)
    measured = told("models", "eval", "runs.jsonl", "--model", "critic", "--json")
    assert 0 <= measured["pairs"][0] <= 1
    ranked = (
        "pairs",
        "rank",
        "runs.jsonl",
        "--run",
        "runs/actor",
        "--critic",
        "critic",
        "--candidates",
        6,
        "--pairs",
        2,
    )
    made = told(*ranked, "--out", "pairs.jsonl", "--json")
    pairs = read_pairs("pairs.jsonl")
    assert (made["pairs"], made["turns"], made["candidates"]) == (len(pairs), 96, 576)
    assert MARKER not in open("pairs.jsonl").read()  # noqa: SIM115
    assert told(*ranked, "--seed", 1, "--out", "other.jsonl", "--json")["pairs"] > 0
    assert read_pairs("other.jsonl") != pairs

    train = ("pairs", "train", "pairs.jsonl", "--run", "runs/actor", "--out", "runs/better", "--lr", "1e-3")
    fitted = told(*train, "--epochs", 2, "--beta", 0.2, "--json")
    assert fitted["schema"] == "apportion.pairs.train/1"
    assert (len(fitted["losses"]), fitted["settings"]["lr"]) == (2, 1e-3)
    assert json.loads(open("runs/better/preference.json").read())["loss_params"] == {"beta": 0.2}  # noqa: SIM115
    config, policy, _ = of_run("runs/better")
    assert (config.start, config.env) == ("runs/actor/policy", "tests/whisper")
    before = of_run("runs/actor")[1]
    assert any(not torch.equal(x, y) for x, y in zip(policy.model.parameters(), before.model.parameters(), strict=True))
    assert told("play", "runs/better", "--out", "again.jsonl", "--json")["rollouts"] == 128


def test_a_training_that_is_resumed_and_one_that_cannot_be(told):
    told("models", "fit", "sweet", "runs.jsonl", "--backbone", "runs/actor/policy", "--out", "critic", "--epochs", 1)
    told(
        "pairs",
        "rank",
        "runs.jsonl",
        "--run",
        "runs/actor",
        "--critic",
        "critic",
        "--candidates",
        4,
        "--out",
        "p.jsonl",
    )
    train = ("pairs", "train", "p.jsonl", "--run", "runs/actor", "--json")
    told(*train, "--out", "runs/a", "--epochs", 2)
    told(*train, "--out", "runs/b", "--epochs", 1)
    told(*train, "--out", "runs/b", "--epochs", 2, "--resume")
    a, b = (open(f"runs/{x}/policy/model.safetensors", "rb").read() for x in "ab")  # noqa: SIM115
    assert a == b
    _, err = told(*train, "--out", "runs/b", "--epochs", 2, status=2)
    assert "holds checkpoints of an earlier run; resume it" in err
    _, err = told(*train, "--out", "runs/c", "--resume", status=1)
    assert "no checkpoint to resume from" in err


def test_what_cannot_be_used_is_said(told):
    rank = ("pairs", "rank", "runs.jsonl", "--out", "p.jsonl")
    for status, arguments, says in (
        (2, (*rank, "--run", "nowhere", "--critic", "critic"), "nowhere holds no run"),
        (1, (*rank, "--run", "runs/actor", "--critic", "critic"), "no credit model is there"),
        (2, (*rank, "--run", "runs/actor", "--critic", "c", "--quantile", "0.8"), "quantile is 0.8"),
        (1, ("pairs", "train", "p.jsonl", "--run", "runs/actor", "--out", "x"), "p.jsonl: no such file"),
        (1, ("pairs", "train", "runs.jsonl", "--run", "runs/actor", "--out", "x"), "line 1: written as"),
        (2, ("play", "critic", "--out", "x"), "critic holds no run"),
    ):
        _, err = told(*arguments, status=status)
        assert says in err.replace("\n", " ")
