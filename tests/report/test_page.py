"""The page as a file: self-contained, and nothing in a transcript can become markup. No browser needed."""

import base64
import hashlib
import json
import re
from importlib import resources

import numpy as np
import pytest

from apportion.assign import assign
from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.errors import ConfigError, DataError
from apportion.report import demo_report, page, report, report_model
from apportion.report.html import SCRIPTS, json_block
from apportion.units import by_step
from tests.make import random_units

VIEWER = resources.files("apportion.report") / "viewer"
HOSTILE = [
    "</script><script>document.title='pwned'</script>",
    "<!--<script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "<b>bold</b> & &lt;i&gt; &amp;",
    "a\u2028b\u2029c",
    "\x00\x01\x1b[31m\x7f\x85",
    "\u202egnp.exe \u2066isolate",
    "half \ud83d, other half \udc00",
    "{{data}} {{script}} {{csp}}",
    "${alert(1)} `x` \\u003cscript\\u003e \\",
    "javascript:alert(1)",
    "\ufffe\uffff\ufeff",
]


def hostile_model():
    steps = [Step(observation=text, action=text, state=text, agent=text, reward=0.0) for text in HOSTILE]
    rollouts = [Trajectory(steps, id=HOSTILE[0] + str(k), group=HOSTILE[2], outcome=float(k)) for k in range(2)]
    units = by_step(Batch.from_trajectories(rollouts))
    credit = Credit(
        np.linspace(-1, 1, len(units)),
        units,
        parts={HOSTILE[2]: np.linspace(-1, 1, len(units))},
        notes={HOSTILE[0]: HOSTILE[2]},
        method=HOSTILE[2],
        params={HOSTILE[0]: HOSTILE[3]},
    )
    return report_model(credit, title=HOSTILE[0])


def data_of(text):
    (block,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    return json.loads(block)


def test_the_data_come_back_and_hold_no_markup():
    model = hostile_model()
    block = json_block(model)
    for sign in "<>&\u2028\u2029":
        assert sign not in block
    block.encode("utf-8")
    assert json.loads(block) == model
    assert data_of(page(model)) == model


def test_the_page_has_two_scripts_and_one_style_whatever_the_transcripts_say():
    for model in (hostile_model(), report_model(assign("grpo", random_units(1)))):
        text = page(model)
        assert len(re.findall(r"<script", text, re.IGNORECASE)) == len(re.findall(r"</script", text)) == 2
        assert len(re.findall(r"<style", text)) == 1
        assert len(re.findall(r"<!--", text)) == 0


def test_the_policy_admits_the_one_script_and_the_one_style_by_digest():
    text = page(hostile_model())
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    assert "unsafe" not in policy
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    for rule, code in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(code.encode("utf-8")).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_nothing_is_fetched():
    text = page(report_model(assign("grpo", random_units(1))))
    assert set(re.findall(r"https?://[^\s\"'<]*", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert re.findall(r"\b(?:src|href)=\"(?!data:,)", text) == []


SINKS = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|createContextualFragment"
FETCHES = r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|\bimport\("


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_viewer_has_no_way_to_put_markup_in_or_to_fetch(name):
    code = (VIEWER / name).read_text(encoding="utf-8")
    assert re.findall(SINKS, code) == []
    assert re.findall(FETCHES, code) == []
    assert "</script" not in code


def test_the_search_for_sinks_can_fail():
    assert re.findall(SINKS, "x.innerHTML = y")
    assert re.findall(FETCHES, "await fetch('x')")


def test_every_file_of_the_viewer_is_used():
    kept = {entry.name for entry in VIEWER.iterdir()}
    assert kept == {*SCRIPTS, "page.html", "style.css"}


def test_a_report_is_written_whole_or_not_at_all(tmp_path):
    credit = assign("grpo", random_units(1))
    report(credit, tmp_path / "r.html", title="größe")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<title>größe</title>" in text
    with pytest.raises(DataError, match="report: decode gave 0 texts"):
        report(credit, tmp_path / "r.html", decode=lambda ids: [])
    assert (tmp_path / "r.html").read_text(encoding="utf-8") == text
    with pytest.raises(ConfigError, match="the folder 'absent' does not exist; create it first"):
        report(credit, tmp_path / "absent" / "r.html")
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"]


def test_equal_credit_makes_equal_pages(tmp_path):
    for name in ("a.html", "b.html"):
        demo_report(SUMMARY, assign("gigpo", random_units(1, rich=False)), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_dict_of_another_schema_is_refused():
    with pytest.raises(
        DataError, match=r"the page shows 'apportion.report/1', the data are 'x/9'; make the model again"
    ):
        page({"schema": "x/9"})


SUMMARY = {
    "learning": {
        "grpo": {
            "success": [0.4, 0.5],
            "mean": 0.45,
            "ci95": [0.3, 0.6],
            "greedy_mean": 0.33,
            "greedy_ci95": [0.2, 0.5],
        },
        "$gi^gpo$ </script>": {"success": [0.6, 0.7], "mean": 0.65, "ci95": [0.5, float("nan")]},
        "difference": {"of": "b - a", "success": [0.2, 0.2], "mean": 0.2, "ci95": [-0.1, 0.5]},
        "before": 0.2,
        "before_greedy": 0.1,
    },
    "curves": {
        "grpo": {"x": [0, 10, 20], "mean": [0.2, 0.3, 0.45], "lo": [0.1, 0.2, 0.3], "hi": [0.3, 0.4, 0.6]},
        "$gi^gpo$ </script>": {"x": [0, 10], "mean": np.array([0.2, 0.4])},
    },
    "truth": {"crafttree": {"grpo": {"grad_cos": [0.3, 0.2, 0.4], "grad_cos_mean": 0.8, "corr": np.float64(0.2)}}},
    "env": "babyai",
    "seconds": 12.5,
    "credit_share": 0.002,
}


def test_a_demo_report_holds_curves_truth_and_facts(tmp_path):
    pytest.importorskip("matplotlib")
    demo_report(SUMMARY, assign("gigpo", random_units(1, rich=False)), tmp_path / "d.html")
    data = data_of((tmp_path / "d.html").read_text(encoding="utf-8"))
    assert data["learning"]["arms"]["grpo"] == SUMMARY["learning"]["grpo"]
    assert data["learning"]["arms"]["$gi^gpo$ </script>"]["ci95"] == [0.5, None]
    assert data["learning"]["before"] == 0.2
    assert data["learning"]["before_greedy"] == 0.1
    assert data["learning"]["difference"] == SUMMARY["learning"]["difference"]
    assert set(data["learning"]["arms"]) == {"grpo", "$gi^gpo$ </script>"}
    assert data["learning"]["curves"]["$gi^gpo$ </script>"]["mean"] == [0.2, 0.4]
    assert data["truth"]["crafttree"]["grpo"] == {"grad_cos": [0.3, 0.2, 0.4], "grad_cos_mean": 0.8, "corr": 0.2}
    assert data["facts"] == {"seconds": 12.5, "credit_share": 0.002}
    for theme in ("light", "dark"):
        head, _, body = data["pictures"]["learning"][theme].partition(",")
        assert head == "data:image/svg+xml;base64"
        svg = base64.b64decode(body).decode("utf-8")
        assert "grpo" in svg
        assert "$gi^gpo$ &lt;/script&gt;" in svg
        assert "<script" not in svg


def test_a_summary_of_another_form_is_named(tmp_path):
    credit = assign("grpo", random_units(1))
    for summary, sentence in {
        "learning": ({"learning": [1]}, r"summary\['learning'\] is a list; give a dict of methods or tasks"),
        "no mean": ({"curves": {"a": {"x": [1]}}}, "curve 'a' needs 'x' and 'mean'"),
        "ragged": ({"curves": {"a": {"x": [1], "mean": [1, 2]}}}, r"different lengths \(x 1, mean 2\); give one value"),
    }.values():
        with pytest.raises(DataError, match=sentence):
            demo_report(summary, credit, tmp_path / "d.html")
