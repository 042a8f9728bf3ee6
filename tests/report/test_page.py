"""The page as a file: self-contained, and nothing in a transcript can become markup. No browser needed."""

import base64
import hashlib
import re
from importlib import resources

import numpy as np
import pytest

from apportion.assign import assign
from apportion.errors import ConfigError, DataError
from apportion.report import demo_report, report, report_model
from apportion.report.html import EMBEDDED, SCRIPTS, SERVED, STYLES, served_page
from tests.make import random_units
from tests.report.examples import HOSTILE, block_of, hostile_credit, html_of

VIEWER = resources.files("apportion.report") / "viewer"


def test_the_data_come_back():
    credit = hostile_credit()
    text = html_of(credit, title=HOSTILE[0])
    index, first = block_of(text, "index"), block_of(text, "page-0")
    model = report_model(credit, title=HOSTILE[0])
    assert index["title"] == HOSTILE[0]
    assert first["texts"] == model["texts"]
    assert first["states"] == model["states"]
    assert [first["trajectories"][str(t)] for t in range(2)] == model["trajectories"]
    text.encode("utf-8")


def test_the_page_holds_blocks_one_script_and_one_style_whatever_the_transcripts_say():
    for credit, title in ((hostile_credit(), HOSTILE[0]), (assign("grpo", random_units(1)), None)):
        text = html_of(credit, title=title)
        assert len(re.findall(r"<script", text, re.IGNORECASE)) == len(re.findall(r"</script", text)) == 3
        assert len(re.findall(r"<style", text)) == 1
        assert len(re.findall(r"<!--", text)) == 0
        assert (
            re.findall(
                r"\son\w+\s*=", text[: text.index("<style>")] + text[text.index("</style>") : text.index("<script")]
            )
            == []
        )


@pytest.mark.parametrize(
    "text", [html_of(hostile_credit(), title=HOSTILE[0]), served_page(HOSTILE[0])], ids=["file", "served"]
)
def test_the_policy_admits_the_one_script_and_the_one_style_by_digest(text):
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["connect-src"] == ("'none'" if "page-0" in text else "'self'")
    assert rules["img-src"] == "data:"
    assert "unsafe" not in policy
    assert text.index("Content-Security-Policy") < text.index("<title>")  # before anything from outside
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    for rule, code in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(code.encode("utf-8")).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"


def test_nothing_is_fetched():
    text = html_of(assign("grpo", random_units(1)))
    assert set(re.findall(r"https?://[^\s\"'<]*", text)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert re.findall(r"\b(?:src|href)=\"(?!data:,)", text) == []
    assert re.findall(FETCHES, text) == []


SINKS = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|createContextualFragment"
FETCHES = r"\bfetch\(|XMLHttpRequest|WebSocket|EventSource|sendBeacon|\bimport\("


@pytest.mark.parametrize("name", [EMBEDDED, SERVED, *SCRIPTS])
def test_the_viewer_has_no_way_to_put_markup_in_or_to_fetch(name):
    code = (VIEWER / name).read_text(encoding="utf-8")
    assert re.findall(SINKS, code) == []
    assert len(re.findall(FETCHES, code)) == (1 if name == SERVED else 0)
    assert "</script" not in code
    assert len(code.splitlines()) < 250


def test_the_search_for_sinks_can_fail():
    assert re.findall(SINKS, "x.innerHTML = y")
    assert re.findall(FETCHES, "await fetch('x')")


def test_every_file_of_the_viewer_is_used():
    kept = {entry.name for entry in VIEWER.iterdir()}
    assert kept == {*SCRIPTS, *STYLES, EMBEDDED, SERVED, "page.html"}


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
    pytest.importorskip("matplotlib")
    for name in ("a.html", "b.html"):
        demo_report(SUMMARY, assign("gigpo", random_units(1, rich=False)), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


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
    data = block_of((tmp_path / "d.html").read_text(encoding="utf-8"), "index")
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
