"""The terminal view: the right numbers, and a transcript that cannot give the terminal orders."""

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import DataError
from apportion.report import report_model
from apportion.report.text import print_trajectory, signed, visible
from apportion.units import by_step
from tests.make import random_units, traj
from tests.report.examples import crossroads, three_rollouts


def printed(model, *args, width=100, colour=False, **options):
    out = io.StringIO()
    print_trajectory(model, *args, console=Console(file=out, width=width, force_terminal=colour), **options)
    return out.getvalue()


def credited(values, *actions, **fields):
    steps = [Step(observation=f"state {k}", action=a, reward=0.0) for k, a in enumerate(actions)]
    batch = Batch.from_trajectories([Trajectory(steps, id="run 1", group="g", outcome=1.0)])
    return report_model(Credit(np.array(values), by_step(batch), method="mine/m", **fields))


def test_numbers_bars_and_text():
    text = printed(credited([1.0, -0.5, 0.0], "open", "wait", "close"))
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[0] == "run 1  outcome 1  group g"
    assert lines[1] == "mine/m, one number per step"
    assert "   0         │████████     +1 state 0" in lines
    assert "   1     ████│           −0.5 state 1" in lines
    assert "   2         │              0 state 2" in lines
    assert [line.strip() for line in lines if line.strip() in ("open", "wait", "close")] == ["open", "wait", "close"]
    assert lines[2] == "[weak evidence] step 0 was decisive: +1, 2 times the next"


def test_unknown_and_dropped_steps_say_so():
    text = printed(credited([1.0, 1.0], "a", "b", known_S=np.array([True, False]), train_S=np.array([False, True])))
    assert "● not trained on" in text
    assert "1         ?              ? state 1" in text


def test_a_mask_of_tokens_is_counted():
    batch = Batch.from_trajectories([Trajectory([Step(action="a b c", reward=1.0)])])
    credit = Credit(np.ones(1), by_step(batch), train_T=np.array([True, False, True]))
    assert "2 of 3 tokens trained on" in printed(report_model(credit))


def test_parts_stand_beside_the_whole():
    units = random_units(1, rich=False)
    model = report_model(assign("gigpo", units))
    text = printed(model, 0)
    assert "episode" in text
    entry = model["trajectories"][0]["credit"]["0"]
    for part in entry["parts"]:
        assert signed(part[0]) in text


def test_the_default_is_the_trajectory_with_the_largest_credit():
    batch = Batch.from_trajectories([traj(("A", 0.0), id="small"), traj(("A", 5.0), id="large")])
    model = report_model(Credit(np.array([0.1, -3.0]), by_step(batch)))
    assert printed(model).startswith("large")
    assert printed(model, "small").startswith("small")
    assert printed(model, "0").startswith("small")
    assert printed(model, 1).startswith("large")


def test_a_trajectory_that_is_not_there():
    model = report_model(assign("grpo", random_units(1)))
    with pytest.raises(DataError, match="there is no trajectory 'x' in this report; give an id, or a position below"):
        printed(model, "x")
    with pytest.raises(DataError, match="the report has 1 credits, there is no credit 3; count from 0"):
        printed(model, credit=3)


@pytest.mark.parametrize(
    "hostile",
    [
        "[bold red]not markup[/bold red]",
        "[link=file:///etc/passwd]click[/link]",
        "[/]",
        "[@click=app.bell]x[/]",
        ":smiley: stays",
    ],
)
def test_markup_is_text(hostile):
    assert hostile in printed(credited([1.0], hostile), full=True)
    batch = Batch.from_trajectories([Trajectory([Step(action="x", reward=1.0)], id=hostile, group=hostile)])
    assert hostile in printed(report_model(Credit(np.ones(1), by_step(batch), method=hostile)), width=300)


def test_the_terminal_is_given_no_orders():
    hostile = "\x1b]0;owned\x07\x1b[2J\x9b31m\x00\r\u202egnp.exe\u2066x\u200b half \ud83d end\ttab\nline"
    text = printed(credited([1.0], hostile), full=True)
    for order in "\x1b\x07\x9b\x00\r\u202e\u2066\u200b\ud83d":
        assert order not in text
    assert "␛]0;owned␇␛[2J⟨U+009B⟩31m␀␍⟨U+202E⟩gnp.exe" in text
    text.encode("utf-8")


def test_the_check_for_orders_can_fail():
    assert "\x1b" in printed(credited([1.0], "plain"), colour=True)  # colour itself is an order, and ours


def test_visible_keeps_what_can_be_seen():
    for text in ("größe 鍵を取る 🦊\n\tx", "a b", "<b>&amp;"):
        assert visible(text) == text


def test_long_texts_are_cut_and_counted_unless_asked_for():
    model = credited([1.0], "x" * 5000)
    assert "… (4,400 more characters)" in printed(model)
    assert printed(model, full=True).count("x") >= 5000
    tall = credited([1.0], "\n".join("abcdefghij"))
    assert "… (8 more characters)" in printed(tall)
    assert "more characters" not in printed(tall, full=True)


def test_other_methods_stand_beside():
    text = printed(report_model(three_rollouts()), "b")
    assert "| two" in text
    (line,) = [line for line in text.splitlines() if line.startswith("   1 ")]
    assert line.split()[-5:-2] == ["−0.3", "−0.3", "+0.6"]  # the parts of one, and the other method
    assert "−0.6" in line


def test_the_choices_in_the_state_of_the_decisive_step_are_told():
    text = printed(report_model(crossroads()), "run 3")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert lines[2] == "[supported] step 0 was decisive: +0.8, 8 times the next"
    assert "by agent: scout +0.8, walker +0.1" in lines
    assert "in the state of step 0: 12 visits by 12 rollouts" in lines
    assert "6 1 0 0% ▸ left" in lines
    assert "6 0 1 0% right" in lines


def test_many_choices_are_cut_and_counted_unless_asked_for():
    rollouts = [Trajectory([Step(observation="x", action=f"go {n}", reward=float(n == 3))]) for n in range(20)]
    batch = Batch.from_trajectories([dataclasses.replace(each, group="g") for each in rollouts])
    model = report_model(assign("grpo", by_step(batch)))
    assert "and 8 more; --full lists all" in printed(model, 3)
    assert printed(model, 3, full=True).count("go ") == 21
