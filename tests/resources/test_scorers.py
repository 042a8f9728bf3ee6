"""Scorers: what counts as the reference's answer, and which built-in made the outcomes of a batch."""

import math
import sys

import pytest

from apportion.data import Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.resources.last_answer import recorded_answer
from apportion.resources.scorers import BUILT_IN, Scorer, fitting, scorer_of


def task(reference, action="", outcome=None, **fields):
    return Trajectory([Step(observation="q", action=action)], reference=reference, outcome=outcome, **fields)


@pytest.mark.parametrize(
    ("name", "reference", "answer", "reward"),
    [
        ("exact", "42", " 42\n", 1.0),
        ("exact", "42", "42.", 0.0),
        ("exact", None, "42", None),
        ("contains", "Paris", "It is paris.", 1.0),
        ("contains", "Paris", "Parisian", 0.0),
        ("contains", "C++", "use C++ here", 1.0),
        ("contains", "(a", "x (a b", 1.0),  # no pattern
        ("contains", " ", "x", None),
        ("number", "72", "so 70 + 2 = 72.", 1.0),
        ("number", "72", "72, no: 71", 0.0),
        ("number", "#### 1,000", "about $1000.00", 1.0),
        ("number", "1/2", "it is 0.5", 1.0),
        ("number", "0.5", "it is 1 / 2", 1.0),
        ("number", "-3", "x = −3", 1.0),
        ("number", "3", "10-3", 1.0),
        ("number", "3", "room a3", 0.0),  # no number stands there
        ("number", "72", "\\boxed{72} after 5 steps", 1.0),
        ("number", "72", "\\boxed{7} then \\boxed{72}", 1.0),
        ("number", "72", "72 \\boxed{71}", 0.0),
        ("number", "\\boxed{\\frac{1}{2}}", "\\boxed{ \\frac{1}{2} }", 1.0),
        ("number", "72", "\\boxed{72", 1.0),  # a box without an end is none; the last number counts
        ("number", "1e3", "1000", 1.0),
        ("number", "72", "", 0.0),
        ("number", "no number", "72", None),
        ("number", "1/0", "1/0", 1.0),
        ("number", None, "72", None),
    ],
)
def test_built_in(name, reference, answer, reward):
    assert BUILT_IN[name](task(reference), answer) == reward


def test_a_text_made_to_be_slow_is_not():
    import time

    began = time.monotonic()
    assert BUILT_IN["number"](task("1"), "\\boxed{" * 30_000) == 0.0
    assert BUILT_IN["number"](task("1"), "1," * 50_000 + "x") is not None
    assert BUILT_IN["number"](task("1"), "1" * 50_000 + "/") is not None
    assert time.monotonic() - began < 2


def test_the_strictest_that_gives_every_outcome_is_taken():
    assert fitting([task("4", "4", 1.0), task("4", "5", 0.0)], act).name == "exact"
    assert fitting([task("4", "so 4", 1.0), task("4", "5", 0.0)], act).name == "number"
    assert fitting([task("4", "4 of 5", 1.0), task("4", "5", 0.0)], act).name == "contains"
    unscored = [task("4", "9"), Trajectory([Step(action="9", failed=True)], reference="9", outcome=0.0)]
    assert fitting([*unscored, task("4", "4", 1.0)], act).name == "exact"


def act(rollout):
    return recorded_answer(rollout, lambda ids: None)


def test_outcomes_of_another_task_are_told_apart():
    rollouts = [task("4", "so 4", 1.0), task("4", "so 4", 0.5), task(None, "x", 1.0)]
    with pytest.raises(
        DataError, match=r"exact disagrees with 3, number disagrees with 2, contains disagrees with 2 of 3"
    ):
        fitting(rollouts, act)
    with pytest.raises(DataError, match="no rollout has an outcome"):
        fitting([task("4", "4")], act)


def test_scorers_by_name_and_of_ones_own(tmp_path, monkeypatch):
    assert scorer_of("number") is BUILT_IN["number"]
    assert scorer_of(BUILT_IN["exact"]) is BUILT_IN["exact"]
    own = scorer_of(act_length)
    assert (own.name, own.reads_meta) == (f"{__name__}:act_length", True)
    assert own(task("4"), "abc") == 3.0
    (tmp_path / "my_scorers.py").write_text("def half(trajectory, answer):\n    return 0.5\nseven = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert scorer_of("my_scorers:half")(task("4"), "x") == 0.5
    assert scorer_of("my_scorers:half").name == "my_scorers:half"
    for name, sentence in [
        ("my_scorers:seven", "is a int, not a function"),
        ("my_scorers:none", "cannot be imported"),
        ("no_such_module:x", "cannot be imported"),
        (":x", "cannot be imported"),
        ("nubmer", "there are exact, number, contains and auto, or write package.module:function"),
    ]:
        with pytest.raises(ConfigError, match=sentence):
            scorer_of(name)


def test_a_file_in_the_current_folder_is_found_with_pythonpath(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [place for place in sys.path if place])  # as the installed command has it
    (tmp_path / "my_own_scorer.py").write_text("import no_such_module\n")
    told = "my_own_scorer.py lies in the current folder, so set PYTHONPATH=. before the command"
    with pytest.raises(ConfigError, match=told):
        scorer_of("my_own_scorer:half")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=r"No module named 'no_such_module'$"):
        scorer_of("my_own_scorer:half")
    with pytest.raises(ConfigError, match=r"No module named 'my_own_other'$"):
        scorer_of("my_own_other:half")


def act_length(trajectory, answer):
    return len(answer)


@pytest.mark.parametrize("bad", ["1", math.nan, math.inf, [1.0], object()])
def test_what_is_no_reward_is_said(bad):
    with pytest.raises(DataError, match=r"the scorer mine returned .* a reward is a finite number, or None"):
        Scorer("mine", lambda trajectory, answer: bad)(task("4"), "x")
    assert Scorer("mine", lambda trajectory, answer: True)(task("4"), "x") == 1.0
