"""`apportion grams`, and grams and cuts with options in `apportion assign`, end to end."""

import json

import pytest

import apportion as ap
from apportion.data import Batch, Step, Trajectory
from tests.grams.corpus import PLANTED, corpus
from tests.make import random_trajectories


@pytest.fixture
def solved(tmp_path):
    path = tmp_path / "runs.jsonl"
    texts = corpus(size=20)
    rollouts = [Trajectory([Step(action=t)], outcome=float(k % 4 > 0), group="g") for k, t in enumerate(texts)]
    ap.write(path, rollouts)
    return path


def test_every_command_has_help_with_an_example(cli):
    from apportion.cli.grams import grams

    for command in grams.registered_commands:
        code, out, _ = cli("grams", command.name, "--help")
        assert code == 0
        assert f"apportion grams {command.name}" in " ".join(out.split()).split("Example:")[1], command.name
        assert "--json" in out


def test_build_check_assign(cli, solved, tmp_path):
    listed = tmp_path / "grams.json"
    code, out, err = cli("grams", "build", solved, "--out", listed, "--top", "0.9", "--clusters", "12", "--json")
    built = json.loads(out)
    assert (code, built["solutions"], built["encoder"]) == (0, 15, "spelling")
    assert {gram["text"] for gram in json.loads(listed.read_text())["grams"]} >= set(PLANTED)
    code, out, err = cli("grams", "check", solved, "--grams", listed, "--json")
    told = json.loads(out)
    assert code == (1 if told["findings"] else 0)
    assert told["found"] == built["grams"]
    code, out, err = cli("assign", solved, "-m", "dr_grpo | hicra", "--grams", listed, "--json")
    assert code == 0, err
    assert json.loads(out)["notes"]["planning_share"] == pytest.approx(told["planning_share"])


def test_a_corpus_of_texts_is_solutions_all_of_them(cli, tmp_path):
    path, listed = tmp_path / "corpus.jsonl", tmp_path / "grams.json"
    rows = [json.dumps({"text": text, "source": k}) for k, text in enumerate(corpus(size=15))]
    path.write_text("\n".join([*rows, "", ""]))
    code, out, err = cli("grams", "build", path, "--out", listed, "--top", "0.9", "--clusters", "12", "--json")
    assert (code, json.loads(out)["solutions"]) == (0, 15), err
    assert {gram["text"] for gram in json.loads(listed.read_text())["grams"]} >= set(PLANTED)
    path.write_text("\n".join([*rows, "{", '{"txt": "x"}']))
    code, _, err = cli("grams", "build", path, "--out", listed)
    assert (code, "corpus.jsonl: line 16: not JSON" in err, 'write {"text": "First we ..."}' in err) == (1, True, True)
    code, out, err = cli("grams", "build", path, "--out", listed, "--skip-bad", "--json")
    assert (code, json.loads(out)["solutions"]) == (0, 15), err
    assert "line 17: no 'text' in it" in err
    assert "left out 2 broken lines" in err
    path.write_text('{"text": "let me", "messages": []}\n')  # a foreign log that happens to have a text
    code, _, err = cli("grams", "build", path, "--out", listed)
    assert (code, "corpus" in err and "line" not in err) == (1, True), err


def test_what_is_printed_for_people(cli, solved, tmp_path):
    listed = tmp_path / "grams.json"
    code, out, err = cli("grams", "build", solved, "--out", listed)
    assert (code, "grams of 15 solutions" in out, "read it before training on it" in err) == (0, True, True)
    code, out, _ = cli("grams", "check", solved, "--grams", listed, "--remove", "0.9", "--rounds", "3")
    assert code == 1
    assert "→ without 90% of the grams only" in " ".join(out.split())


def test_the_starter(cli, tmp_path):
    code, out, err = cli("grams", "starter", "--out", tmp_path / "g.json", "--json")
    assert (code, json.loads(out)["license"]) == (0, "as the library (Apache-2.0)")
    code, _, err = cli("grams", "starter", "--out", tmp_path / "g.txt")
    assert (code, "lists of grams are JSON; give a name that ends in .json" in err) == (2, True)


def test_encode(cli, tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel({"?": 0, "let": 1, "me": 2, "Let": 3, "Me": 4}, "?"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    model.save(str(tmp_path / "tokenizer.json"))
    ap.grams.write_grams(tmp_path / "g.json", ap.grams.GramList((ap.grams.Gram("let me"),)))
    code, out, err = cli("grams", "encode", tmp_path / "g.json", "--tokenizer", tmp_path, "-o", tmp_path / "i.json")
    assert (code, "1 phrases in 3 sequences of token ids" in err) == (0, True), err
    step = Step(prompt_ids=[1, 2], ids=[3, 2, 0])
    ap.write(tmp_path / "runs.jsonl", [Trajectory([step], outcome=o, group="g") for o in (1.0, 0.0)])
    code, out, _ = cli(
        "assign", tmp_path / "runs.jsonl", "-m", "grpo | hicra", "--grams", tmp_path / "i.json", "--json"
    )
    assert json.loads(out)["notes"]["planning_tokens"] == 4
    (tmp_path / "bad.json").write_text("{}")
    code, _, err = cli("grams", "encode", tmp_path / "g.json", "--tokenizer", tmp_path / "bad.json", "-o", "x.json")
    assert (code, "not a tokenizer" in err) == (1, True)
    code, _, err = cli("grams", "encode", tmp_path / "g.json", "--tokenizer", tmp_path / "none", "-o", "x.json")
    assert (code, "no tokenizer.json there" in err) == (2, True)


def test_a_cut_with_options(cli, tmp_path):
    path = tmp_path / "runs.jsonl"
    rollouts = random_trajectories(3, forks=False)
    ap.write(path, rollouts)
    for unit, options in (
        ("segment(by='fixed', count=2)", {"by": "fixed", "count": 2}),
        ("segment(by='cutpoint', interval=1)", {"by": "cutpoint", "interval": 1}),
    ):
        code, out, err = cli("assign", path, "-m", "grpo", "--unit", unit, "--json")
        assert code == 0, err
        assert json.loads(out)["units"] == len(ap.by_segment(Batch.from_trajectories(rollouts), **options))
    code, _, err = cli("assign", path, "-m", "grpo", "--unit", "step(count=2)")
    assert (code, "by_step takes no count; it takes state" in err) == (2, True)
    code, _, err = cli("assign", path, "-m", "grpo", "--unit", "step + turn")
    assert (code, "cannot read the unit 'step + turn'; write one of" in err) == (2, True)


def test_what_it_refuses(cli, solved, tmp_path):
    code, _, err = cli("grams", "build", solved, "--out", tmp_path / "g.json", "--above", "5")
    assert (code, "no rollout has an outcome above 5; give solutions, or another --above" in err) == (1, True)
    assert not (tmp_path / "g.json").exists()
    code, _, err = cli("grams", "check", solved, "--grams", solved)
    assert code == 1
    assert "make a list with `apportion grams build`" in err
    code, _, err = cli("assign", solved, "-m", "dr_grpo | hicra", "--grams", tmp_path / "none.json")
    assert (code, "none.json: no such file or directory" in err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("build", "nowhere.jsonl", "--out", "g.json", "--top", "2"), "grams: top is 2.0; give a share in (0, 1]"),
        (("build", "nowhere.jsonl", "--out", "g.json", "--shortest", "6"), "words per n-gram from 6 to 5; give"),
        (("build", "nowhere.jsonl", "--out", "g.json", "--clusters", "0"), "clusters is 0; give a whole number"),
        (("check", "nowhere.jsonl", "--grams", "g.json", "--remove", "1"), "remove is 1.0; give a share between 0"),
        (("check", "nowhere.jsonl", "--grams", "g.json", "--rounds", "0"), "rounds is 0; give a whole number from 1"),
    ],
)
def test_settings_are_checked_before_anything_is_read(cli, arguments, sentence):
    code, out, err = cli("grams", *arguments)
    assert (code, out) == (2, "")
    assert sentence in err
