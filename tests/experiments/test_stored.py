"""What the experiments share: parts that are kept, results that say what made them, pages made of the stored JSON."""

import importlib
import json
import sys

import pytest

pytest.importorskip("scipy")
pytest.importorskip("torch")
pytest.importorskip("transformers")

from apportion.errors import DataError
from experiments import stored
from experiments.means import interval, paired, side

PAGES = {path.stem: path for path in sorted(stored.RESULTS.glob("*.md"))}
MADE_BY = {"pooled_noisy": "pooled"}
"""Experiments that a page has another name than."""


def test_a_part_is_measured_once_and_read_afterwards(tmp_path):
    path, calls = tmp_path / "runs" / "part.json", []
    made = [stored.kept(path, lambda: calls.append(1) or {"k": (1, 2), 3: 0.1}) for _ in range(2)]
    assert len(calls) == 1
    assert made[0] == made[1] == {"k": [1, 2], "3": 0.1}

    def killed():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stored.kept(tmp_path / "other.json", killed)
    assert not (tmp_path / "other.json").exists()


def test_results_name_the_commit_and_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "commit", lambda: "abc")
    monkeypatch.setattr(
        sys, "argv", ["ignored", "--out", "a b/c", "--seeds", "3", "--arms", "gigpo;pooled", "--work=d"]
    )
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", importlib.util.find_spec("experiments.learning.__main__"))
    stored.write_results(tmp_path, "some", {"seeds": 3}, "# Page\n")
    command = "python -m experiments.learning --seeds 3 --arms 'gigpo;pooled'"
    assert json.loads((tmp_path / "some.json").read_text()) == {"commit": "abc", "command": command, "seeds": 3}
    assert (tmp_path / "some.md").read_text() == "# Page\n"


def test_intervals_are_of_the_mean_paired_by_seed_and_cut_at_the_range():
    # four numbers with standard deviation 1: 3.182 / 2 on either side
    values = [5 - 3**0.5 / 2, 5 - 3**0.5 / 2, 5 + 3**0.5 / 2, 5 + 3**0.5 / 2]
    assert interval(values, digits=3) == [5.0, 3.409, 6.591]
    assert interval([x - 4.5 for x in values], digits=3) == [0.5, -1.091, 2.091]
    assert interval([x - 4.5 for x in values], digits=3, share=True) == [0.5, 0.0, 1.0]
    assert paired([1.0, 5.0, 9.0], [0.5, 4.5, 8.5]) == [0.5, 0.5, 0.5]
    with pytest.raises(DataError, match="at least two"):
        interval([1.0])
    with pytest.raises(ValueError, match="shorter"):
        paired([1.0, 2.0, 3.0], [1.0, 2.0])


@pytest.mark.parametrize(("three", "of"), [((2, 1, 3), 1), ((-2, -3, -1), -1), ((1, 0, 2), 0), ((1, -1, 3), 0)])
def test_an_interval_that_reaches_the_threshold_is_on_neither_side(three, of):
    assert side(three) == of
    assert side([x + 8 for x in three], 8) == of


@pytest.mark.parametrize("name", sorted(PAGES))
def test_a_stored_page_is_what_the_stored_json_gives(name):
    experiment = importlib.import_module(f"experiments.{MADE_BY.get(name, name)}")
    found = stored.read(PAGES[name].with_suffix(".json"))
    assert experiment.markdown(found) == PAGES[name].read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted({path.stem for path in stored.HERE.glob("*.py")}))
def test_the_help_of_every_command_says_how_it_is_run(name, monkeypatch, capsys):
    module = importlib.import_module(f"experiments.{name}")
    if not hasattr(module, "main"):
        return  # a part of an experiment
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as left:
        module.main()
    assert left.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: python -m experiments.{name} " in text
    assert f"python -m experiments.{name}" in module.__doc__
