"""Folders on the command line: what is a folder's work, what it prints, and how it leaves."""

import json

import pytest

from apportion.cli.run import run
from apportion.data import write
from tests.adapters.volume.folders import contents, folder_of, rollouts


@pytest.fixture
def big(tmp_path):
    return folder_of(tmp_path / "big", rollouts(2), files=3)


def test_a_folder_is_credited_and_the_counts_are_told(big, tmp_path, capsys):
    out = tmp_path / "credited"
    assert run(["assign", str(big), "--method", "gigpo", "--gamma", "0.9", "--out", f"{out}/", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["files"], told["fresh"]) == ("apportion.assign.folder/1", 3, 3)
    assert told["rows"] == told["rollouts"] + told["skipped"] == len(rollouts(2))
    assert run(["assign", str(big), "--method", "gigpo", "--gamma", "0.9", "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "gigpo: 3 files into" in said.out
    assert "3 of 3 files were finished before and are kept" in said.err
    assert sorted(contents(out)) == sorted(contents(big))


def test_several_files_as_a_shell_gives_them_and_a_pattern(big, tmp_path, capsys):
    files = [str(path) for path in sorted(big.glob("*.parquet"))]
    assert run(["assign", *files, "--method", "grpo", "--scale", "std", "--out", str(tmp_path / "a")]) == 0
    assert run(["assign", f"{big}/*.parquet", "-m", "grpo", "--scale", "std", "--out", str(tmp_path / "b")]) == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_one_file_with_a_file_to_write_is_as_it_was(big, tmp_path, capsys):
    out = tmp_path / "credit.parquet"
    assert run(["assign", str(big / "part-0.parquet"), "--method", "grpo", "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "apportion.assign/1"
    assert out.is_file()


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--gamma", "0.5"], 2, "was begun with gamma 0.9, now it is 0.5"),
        (["--method", "grpo | whiten"], 2, "whiten takes its numbers from all rollouts at once"),
        (["--states", "learned"], 2, "'learned' learns from all rollouts at once"),
        (["--engine", "spark"], 2, "no engine named 'spark'; there are local and ray"),
        (["--from", "tau"], 2, "--from is for foreign formats"),
        (["--unit", "paragraph"], 2, "no unit named 'paragraph'"),
    ],
)
def test_what_cannot_be_is_one_sentence(big, tmp_path, capsys, arguments, code, sentence):
    out = tmp_path / "credited"
    assert run(["assign", str(big), "--method", "gigpo", "--gamma", "0.9", "--out", str(out)]) == 0
    before = contents(out)
    capsys.readouterr()
    given = ["assign", str(big), "--out", str(out)]
    assert run([*given, *arguments]) == code
    said = capsys.readouterr().err
    assert sentence in " ".join(said.split())
    assert contents(out) == before


def test_an_engine_is_for_folders(big, tmp_path, capsys):
    assert run(["assign", str(big / "part-0.parquet"), "--engine", "ray"]) == 2
    assert "give --out FOLDER" in capsys.readouterr().err
    assert run(["convert", str(big), "--out", str(tmp_path / "x.jsonl"), "--engine", "ray"]) == 2
    assert "give --out FOLDER" in capsys.readouterr().err


def test_a_split_group_names_the_command_that_helps_and_it_does(big, tmp_path, capsys):
    write(big / "late.parquet", rollouts(2)[:1])
    out, grouped = tmp_path / "credited", tmp_path / "grouped"
    assert run(["assign", str(big), "--out", str(out)]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"`apportion convert {big} --out grouped/`" in said
    assert run(["convert", str(big), "--out", f"{grouped}/", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["inputs"], told["rollouts"]) == (4, len(rollouts(2)) + 1)
    assert run(["assign", str(grouped), "--out", str(out)]) == 0
    assert run(["view", str(out / "part-00000.parquet"), "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").stat().st_size > 0
