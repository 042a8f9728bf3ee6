"""``apportion assign --states``: what counts as one state, and what was taken out of the texts."""

import json

import pytest

import apportion as ap
from apportion.cli.run import run


@pytest.fixture
def pages(tmp_path):
    path = tmp_path / "pages.jsonl"
    texts = [
        "Page. Session 8f3a91c2. Price $20",
        "Page. Session 77be04d1. Price $20",
        "Page. Session 77be04d1. Price $30",
    ]
    ap.write(
        path,
        [
            ap.Trajectory([ap.Step(observation=text, action="click", reward=reward)], group="g")
            for text, reward in zip(texts, (1.0, 0.0, 0.0), strict=True)
        ],
    )
    return path


@pytest.mark.parametrize(
    ("states", "step"), [("exact", 0.0), ("normalised", 0.5), ("learned", 2 / 3), ("near", 0.0), ("blocks", 0.0)]
)
def test_each_rule_reaches_the_credit(pages, tmp_path, capsys, states, step):
    out = tmp_path / "credit.jsonl"
    code = run(["assign", str(pages), "--method", "anchor", "--states", states, "--out", str(out), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert code == 0
    credit = ap.read_credit(out)
    assert credit.advantage_S[0] == pytest.approx(step)  # three starts of one group are one state: learned goes further
    assert credit.units.options == ({} if states == "exact" else {"state": states})
    assert told.get("states", "exact") == states
    assert ("hex: 3 in 3 texts" in str(told.get("stripped"))) == (states == "normalised")


def test_what_was_taken_out_is_said(pages, capsys):
    assert run(["assign", str(pages), "--method", "anchor", "--states", "normalised"]) == 0
    err = " ".join(capsys.readouterr().err.split())
    assert "states: hex: 3 in 3 texts, like '8f3a91c2', '77be04d1'" in err
    assert "states: 3 states became 2" in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--states", "norm"], "no state rule named 'norm'; there are exact, normalised, learned, near, blocks"),
        (
            ["--states", "near", "--method", "reinforce", "--unit", "token"],
            "--states near needs units with states, and by_token has none; cut by step or turn",
        ),
    ],
)
def test_what_it_refuses(pages, capsys, arguments, sentence):
    assert run(["assign", str(pages), *arguments]) == 2
    assert sentence in " ".join(capsys.readouterr().err.split())
