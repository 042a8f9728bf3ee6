"""``apportion convert`` on every format: counts that add up, a sentence for what is broken, no half-written file."""

import json

import pytest

import apportion as ap
from tests.adapters.foreign import lines
from tests.adapters.written import REFLEXION, WRITTEN


@pytest.mark.parametrize("name", WRITTEN)
def test_every_format_is_converted_and_says_what_it_is(cli, name, tmp_path):
    path = lines(tmp_path / "in.jsonl", WRITTEN[name].values)
    code, out, _ = cli("convert", path, "--out", tmp_path / "out.jsonl", "--json")
    told = json.loads(out)
    assert (code, told["schema"], told["files"][0]["format"]) == (0, "apportion.convert/1", name)
    assert told["written"] == told["trajectories"] == told["records"] == WRITTEN[name].rollouts
    assert told["skipped"]["count"] == 0
    assert len(ap.read(tmp_path / "out.jsonl")) == WRITTEN[name].rollouts
    code, _, err = cli("convert", path, "--from", name, "--out", tmp_path / "again.jsonl")
    assert code == 0
    assert f"read as {name} (as asked for)" in err
    assert f"wrote {tmp_path / 'again.jsonl'}: {told['written']} of {told['records']} records" in err
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "out.jsonl").read_bytes()


@pytest.mark.parametrize("name", WRITTEN)
def test_a_broken_record_stops_it_or_is_counted(cli, name, tmp_path):
    path = lines(tmp_path / "in.jsonl", [*WRITTEN[name].values, 7])
    out = tmp_path / "out.jsonl"
    code, _, err = cli("convert", path, "--from", name, "--out", out)
    assert code == 1
    assert f"error: {path}, line {len(WRITTEN[name].values) + 1}" in err
    assert "Traceback" not in err
    assert not out.exists()
    code, text, _ = cli("convert", path, "--from", name, "--out", out, "--skip-bad", "--json")
    told = json.loads(text)
    assert code == 0
    assert told["records"] == told["written"] + told["skipped"]["count"] == WRITTEN[name].rollouts + 1
    assert str(path) in told["skipped"]["reasons"][0]


def test_a_log_without_a_rollout_writes_nothing(cli, tmp_path):
    path = tmp_path / "trial_9.log"
    path.write_text("\n#####\n\nEnvironment #0: Success\n\n#####\n")
    code, _, err = cli("convert", path, "--out", tmp_path / "out.jsonl")
    assert code == 1
    assert "no rollout to write (environments that an earlier trial solved: not played again, left out)" in err
    assert not (tmp_path / "out.jsonl").exists()
    path.write_text(REFLEXION)
    assert cli("convert", path, "--out", tmp_path / "out.jsonl")[0] == 0


def test_an_unknown_format_gets_the_nearest_name(cli, tmp_path):
    path = lines(tmp_path / "in.jsonl", WRITTEN["swe-agent"].values)
    code, _, err = cli("convert", path, "--from", "sweagent", "--out", tmp_path / "out.jsonl")
    assert code == 2
    assert "no file format named 'sweagent'; did you mean 'swe-agent'?" in err
