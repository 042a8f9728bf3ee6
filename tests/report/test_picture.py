"""The picture of a credited trajectory: its numbers are the model's, and the one in the docs is what the code draws."""

import runpy
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError
from apportion.report import report_model
from apportion.report.picture import picture
from apportion.units import by_step
from tests.make import random_units
from tests.report.examples import HOSTILE

IMAGES = Path(__file__).parents[2] / "docs" / "images"
NS = "{http://www.w3.org/2000/svg}"


def model_of(values, actions, **fields):
    steps = [Step(observation="o", action=a, reward=float(k == len(actions) - 1)) for k, a in enumerate(actions)]
    units = by_step(Batch.from_trajectories([Trajectory(steps, id="run", group="g")]))
    return report_model([Credit(np.array(values), units, method="one"), Credit(-np.array(values), units, method="two")])


def texts(svg, kind):
    return ["".join(e.itertext()) for e in ET.fromstring(svg).iter(f"{NS}text") if kind in e.get("class").split()]


def bars(svg):
    return [e for e in ET.fromstring(svg).iter(f"{NS}rect") if e.get("class") in ("pos", "neg")]


def test_numbers_signs_and_heights():
    svg = picture(model_of([0.5, -1.0, 0.0, 0.25], ["a", "b", "c", "d"]), 0)
    assert texts(svg, "value") == ["+0.50", "−1.00", "0", "+0.25", "−0.50", "+1.00", "0", "−0.25"]
    assert texts(svg, "peak") == ["−1.00", "+1.00"]
    assert [bar.get("class") for bar in bars(svg)] == ["pos", "neg", "pos", "neg", "pos", "neg"]
    heights = [float(bar.get("height")) for bar in bars(svg)]
    assert heights[0] == pytest.approx(heights[1] / 2, rel=0.02)
    assert texts(svg, "label") == ["one", "two"]
    assert texts(svg, "paid") == ["● reward 1"]
    assert texts(svg, "title") == ["run"]
    assert texts(svg, "sub") == ["group g, outcome 1"]


def test_nobody_is_the_peak_of_a_flat_row():
    assert texts(picture(model_of([1.0, 1.0], ["a", "b"]), 0), "peak") == []


def test_hostile_texts_are_text():
    for hostile in HOSTILE:
        svg = picture(model_of([1.0, -1.0], [hostile, hostile]), 0, title=hostile, notes={"one": hostile})
        root = ET.fromstring(svg)  # well-formed
        assert {e.tag.removeprefix(NS) for e in root.iter()} <= {"svg", "style", "rect", "line", "text"}


def test_what_does_not_fit_is_named():
    model = model_of([0.0] * 20, ["a"] * 20)
    with pytest.raises(ConfigError, match="trajectory 0 has 20 steps, a picture holds 14; choose a shorter one"):
        picture(model, 0)
    with pytest.raises(ConfigError, match="trajectory 0 has no credit 5; it has 0"):
        picture(report_model(assign("grpo", random_units(1, steps=3))), 0, credits=[5])


def test_the_picture_in_the_docs_is_what_the_code_draws(tmp_path):
    drawn = runpy.run_path(str(IMAGES / "credited_trajectory.py"))["draw"]()
    assert (IMAGES / "credited-trajectory.svg").read_text(encoding="utf-8") == drawn
    assert len(texts(drawn, "label")) == 3
