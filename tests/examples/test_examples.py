"""Every example runs as it stands, in a folder of its own, and shows what its first sentence says."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(path.name for path in FOLDER.glob("*.py"))
LONGEST = 60


@pytest.fixture
def example(tmp_path, monkeypatch):
    """An example by name, as a module; what it writes stays in the test's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


def on_its_own(name, folder, *arguments):
    """What an example prints when it is started as its docstring says."""
    command = [sys.executable, str(FOLDER / name), *arguments]
    done = subprocess.run(command, cwd=folder, env=dict(os.environ), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_example_is_short_and_says_how_it_is_started(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert text.count("\n") < LONGEST
    if name != "stand_in_server.py":
        assert f"python examples/{name}" in text


def test_the_page_of_the_examples_names_each_of_them_and_no_other():
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    there = {path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".ipynb")}
    assert set(re.findall(r"\]\((\w+\.(?:py|ipynb))\)", page)) == there


def test_a_log_is_credited(example, tmp_path):
    credit = example("credit_a_log").main()
    opened_S = np.array([f"open the {name} box" for name in ("red", "blue", "red", "green", "blue")])
    good_N = np.char.find(opened_S, "blue") >= 0
    good_S = good_N[credit.units.traj_of_S]
    assert (credit.advantage_S[good_S] > 0).all()
    assert (credit.advantage_S[~good_S] < 0).all()
    assert (tmp_path / "runs/examples/credit.html").stat().st_size > 10_000


def test_a_loop_of_ones_own_learns(example):
    returns = example("own_loop").main(iterations=40)
    assert np.mean(returns[-10:]) > np.mean(returns[:5]) + 2  # of 6 that can be had


def test_a_server_is_asked_once(example, capsys):
    pytest.importorskip("httpx2")
    credit, summary = example("ask_a_server").main()
    worst = {
        name: int(np.argmin(credit.advantage_S[credit.units.traj_of_S == n]))
        for n, name in ((1, "second"), (2, "first"))
    }
    assert worst == {"second": 1, "first": 0}  # the line that slipped
    assert summary.asked == 96
    _, again = example("ask_a_server").main()
    assert again.asked == 0
    assert "0 asked" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_critic_learns_something(example):
    pytest.importorskip("torch")
    model, fresh = example("train_a_critic").main()
    assert model.measure(fresh)["explained_variance"][1] > 0  # the low end of the interval


def test_a_method_is_added(tmp_path):
    told = on_its_own("add_a_method.py", tmp_path)  # alone: it stays in the registry of its process
    assert "the contract holds" in told
    assert told.count("correlation with the exact advantage") == 3


def test_methods_are_compared_with_the_truth(example):
    document = example("compare_on_truth").main("exact advantage,grpo,random", budget=300, seeds=3)
    cosine = {(cell["task"], cell["method"]): cell["metrics"]["cosine"][0] for cell in document["cells"]}
    for task in ("keydoor", "chain"):
        assert cosine[task, "exact advantage"] > cosine[task, "grpo"] > cosine[task, "random"]


def test_rows_of_verl_are_credited(example):
    result = example("verl_stage").main()
    assert not result.drops
    for at, good in enumerate((True, True, False, False)):
        own = result.advantage[at]
        assert (own[[2, 3]] == 0).all()  # what the game wrote
        assert (own[own != 0] > 0).all() == good


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SCRIPTS if n not in ("trl_gigpo.py", "stand_in_server.py")])
def test_an_example_runs_as_its_docstring_says(name, tmp_path):
    assert on_its_own(name, tmp_path).strip()
