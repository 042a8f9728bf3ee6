"""Pages that the package writes: nothing from outside becomes part of them, and they may load and reach nothing."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import apportion as ap
from apportion.bench.compare import Plan, compare
from apportion.bench.compare.page import page as bench_page
from apportion.report import demo_report, report
from tests.make import random_trajectories

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "apportion"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u2028"
TAGS = re.compile(r"<script>alert|<img src=x|onerror=alert\(2\)>")


def policy_of(text):
    (told,) = re.findall(r"http-equiv=[\"']Content-Security-Policy[\"'] content=\"([^\"]*)\"", text)
    return {rule.split()[0]: rule.split()[1:] for rule in told.split(";")}


def credit():
    rollouts = [
        replace(
            rollout,
            group=f"{HOSTILE}{n % 2}",
            id=f"{HOSTILE}{n}",
            steps=[replace(step, agent=HOSTILE, observation=HOSTILE) for step in rollout.steps],
        )
        for n, rollout in enumerate(random_trajectories(3, forks=False))
    ]
    return ap.assign("grpo", ap.by_step(ap.Batch.from_trajectories(rollouts)))


def reports(folder):
    made = credit()
    report(made, folder / "report.html", title=HOSTILE)
    facts = {"env": HOSTILE, "truth": {}, HOSTILE: HOSTILE}
    demo_report(facts, [made], folder / "demo.html", title=HOSTILE)
    yield (folder / "report.html").read_text(encoding="utf-8")
    yield (folder / "demo.html").read_text(encoding="utf-8")


def bench(folder):
    document = compare(["grpo", "random"], ["chain"], Plan(budget=100, seeds=2), out=folder)
    for cell in document["cells"]:
        cell["method"] = HOSTILE
    document["cells"].append({"method": HOSTILE, "task": HOSTILE, "reason": HOSTILE, "J": 0.0})
    document["version"] = HOSTILE
    document["plan"]["state"] = HOSTILE
    return bench_page(document)


def test_pages_hold_no_element_from_outside(tmp_path):
    for text in [*reports(tmp_path), bench(tmp_path / "bench")]:
        assert TAGS.search(text) is None


def test_pages_may_load_and_reach_nothing(tmp_path):
    for text in [*reports(tmp_path), bench(tmp_path / "bench")]:
        rules = policy_of(text)
        assert rules["default-src"] == ["'none'"]
        assert "'unsafe-inline'" not in rules.get("script-src", [])
        assert "'unsafe-eval'" not in rules.get("script-src", [])
        assert rules.get("connect-src", ["'none'"]) == ["'none'"]
        assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text)


def test_every_page_of_the_package_is_tested_here():
    writes = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*")
        if file.suffix in (".py", ".html") and re.search(r"<!doctype html", file.read_text(encoding="utf-8"), re.I)
    }
    assert writes == {"report/viewer/page.html", "bench/compare/page.py"}


@pytest.mark.parametrize("planted", ["<p><script>alert(1)", "<img src=x onerror=alert(2)>"])
def test_an_element_from_outside_would_be_found(planted):
    assert TAGS.search(planted)


def test_the_credit_is_a_real_one():
    assert np.isfinite(credit().advantage_S).all()
