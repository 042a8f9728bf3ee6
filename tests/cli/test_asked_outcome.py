"""``--outcome-field`` in every command that takes ``--group-by``: the same field, the same refusal."""

import json

import pytest

import apportion as ap
from tests.adapters.foreign import lines, said, user

WORDS = "verdict holds words, not numbers ('pass', 'fail'); give verdict=WORD as the outcome"


@pytest.fixture
def log(tmp_path):
    verdicts = ["pass", "fail", "pass", "fail"]
    return lines(
        tmp_path / "log.jsonl",
        [
            {"messages": [user("go"), said(f"way {n}")], "task_id": "t", "verdict": word, "score": 7}
            for n, word in enumerate(verdicts)
        ],
    )


@pytest.mark.parametrize("target", ["out.jsonl", "folder"])
def test_convert_writes_it_and_says_so(cli, log, tmp_path, target):
    out = tmp_path / target
    code, _, err = cli("convert", log, "--outcome-field", "verdict=pass", "--out", out)
    assert code == 0
    assert "outcome from verdict, as asked for (4)" in err
    assert "verdict is 'fail': outcome 0 (2)" in err
    files = sorted(out.glob("*.parquet")) if out.is_dir() else [out]
    assert [t.outcome for file in files for t in ap.read(file).trajectories] == [1.0, 0.0, 1.0, 0.0]


def test_convert_without_the_word_is_refused_and_writes_nothing(cli, log, tmp_path):
    out = tmp_path / "out.jsonl"
    code, _, err = cli("convert", log, "--outcome-field", "verdict", "--out", out)
    assert code == 2
    assert WORDS in err
    assert not out.exists()


def test_assign_divides_it(cli, log):
    code, out, _ = cli("assign", log, "--method", "grpo", "--outcome-field", "verdict=pass", "--json")
    passed = json.loads(out)
    assert code == 0
    plain = json.loads(cli("assign", log, "--method", "grpo", "--json")[1])
    assert passed != plain  # every score is 7, which leaves nothing to divide


def test_check_sees_it(cli, log):
    told = {
        asked: [finding["code"] for finding in json.loads(cli("check", log, *asked, "--json")[1])["findings"]]
        for asked in [(), ("--outcome-field", "verdict=pass")]
    }
    assert "constant-group" in told[()]
    assert "constant-group" not in told["--outcome-field", "verdict=pass"]


@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("assign", "--method", "grpo"),
        ("recommend",),
        ("cost", "grpo"),
        ("values", "--resampler", "http://127.0.0.1:9/v1"),
    ],
    ids=lambda command: command[0],
)
def test_every_command_reads_the_field(cli, log, command):
    first, rest = (command[:2], command[2:]) if command[0] == "cost" else (command[:1], command[1:])
    code, _, err = cli(*first, log, *rest, "--outcome-field", "verdict")
    assert code == 2
    assert WORDS in err


def test_a_folder_of_ours_takes_none(cli, tmp_path):
    (tmp_path / "big").mkdir()
    code, _, err = cli(
        *("assign", tmp_path / "big", "--method", "grpo", "--outcome-field", "verdict", "--out", tmp_path / "out")
    )
    assert code == 2
    assert "--outcome-field is for foreign formats" in err
