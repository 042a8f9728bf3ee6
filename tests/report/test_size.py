"""A thousand trajectories of fifty steps: on screen in less than two seconds, in less than three times the input."""

import time

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import read_credit, write_credit
from apportion.data import Batch, Step, Trajectory
from apportion.report import report
from apportion.units import by_step
from tests.report.browser import Browser, Page

pytestmark = pytest.mark.slow

TRAJECTORIES, STEPS, GROUP = 1000, 50, 8
WORDS = (
    "the a key door chest open take north south east west room with small red blue green lamp table shelf is locked on "
    "floor you see there are and old book note says go back look under mirror"
).split()
ACTIONS = ["go north", "go south", "open the chest", "take the key", "look around", "unlock the door"]


def rollouts():
    rng = np.random.default_rng(0)

    def words(n):
        return " ".join(rng.choice(WORDS, n))

    rooms = {g: [f"Room {k}. {words(30)}" for k in range(12)] for g in range(TRAJECTORIES // GROUP)}
    for n in range(TRAJECTORIES):
        steps = [
            Step(
                observation=rooms[n // GROUP][rng.integers(12)],
                action=f"I think {words(8)}. Action: {ACTIONS[rng.integers(6)]}",
                reward=float(rng.random() < 0.4) if k == STEPS - 1 else 0.0,
            )
            for k in range(STEPS)
        ]
        yield Trajectory(steps, group=f"task {n // GROUP}", id=f"run {n}")


def test_a_thousand_trajectories_open_at_once_and_stay_small(tmp_path, record_property):
    pytest.importorskip("pyarrow")
    source, path = tmp_path / "credit.parquet", tmp_path / "credit.html"
    write_credit(source, assign("gigpo", by_step(Batch.from_trajectories(list(rollouts())))))
    report(read_credit(source), path)
    browser = Browser(tmp_path / "profile")
    waits, clocks = [], []
    for _ in range(3):
        page = Page(browser)
        began = time.monotonic()
        page.open(path.as_uri() + "#t=900&s=7")
        clocks.append(time.monotonic() - began)
        waits.append(int(page.value("document.documentElement.dataset.ready")))  # performance.now() when it was drawn
        assert page.texts(".row[aria-current=true] .name") == ["run 899"]
        assert page.count(".row") < 60  # only what is in sight
        assert page.count("article") == STEPS
        assert page.problems == []
        page.close()
    browser.close()
    input_size, size = source.stat().st_size, path.stat().st_size
    record_property(
        "reported",
        f"report of {TRAJECTORIES:,} x {STEPS} steps: drawn after {sorted(waits)[1]} ms, "
        f"{size / 1e6:.1f} MB for an input of {input_size / 1e6:.1f} MB ({size / input_size:.2f} times)",
    )
    assert min(waits) < 2000
    assert min(clocks) < 2.0
    assert size < 3 * input_size
