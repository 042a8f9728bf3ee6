"""The rules of the results page: verdicts, what is kept of a comparison, markers, figures without a date."""

import json
import sys

import pytest

pytest.importorskip("scipy")
pytest.importorskip("torch")

from experiments import bench_summary
from experiments.markdown import plain, signed, table
from experiments.page import __main__ as page
from experiments.page import exactly, figures
from experiments.page.claims import Claim, Found, render, several, verdict
from experiments.page.sources import CLAIMS

HOLDS, FAILS, OPEN = (0.2, 0.1, 0.3), (-0.2, -0.3, -0.1), (0.1, -0.1, 0.3)


@pytest.mark.parametrize(("interval", "said"), [(HOLDS, "holds"), (FAILS, "fails"), (OPEN, "not shown")])
def test_a_verdict_goes_by_the_interval(interval, said):
    assert verdict(interval) == said
    assert verdict([x + 8 for x in interval], 8) == said


@pytest.mark.parametrize(
    ("intervals", "said"),
    [
        ([HOLDS, HOLDS, OPEN], "holds in 2 of 3"),
        ([FAILS, OPEN], "fails in 1 of 2"),
        ([HOLDS, FAILS, OPEN], "mixed: holds in 1 and fails in 1 of 3"),
        ([HOLDS, OPEN, OPEN], "not shown: holds in 1 of 3"),
        ([OPEN], "not shown"),
    ],
)
def test_several_measurements_make_one_verdict(intervals, said):
    assert several(intervals) == said


def ours_of(says, stored):
    (claim,) = (claim for claim in CLAIMS if claim.says.startswith(says))
    return claim.ours(Found(stored, {}))


def test_claims_with_several_measurements_go_by_the_same_rule():
    counts = {n: {"treg, paper's alphas": {"less dpo": {"pairs": gap}}} for n, gap in (("16", HOLDS), ("64", OPEN))}
    text, said = ours_of("better than DPO: held-out pairs", {"treg_planted": {"counts": counts}})
    assert (text, said) == (
        "16 pairs **+0.200 (+0.100 to +0.300)**; 64 pairs +0.100 (−0.100 to +0.300)",
        "holds in 1 of 2",
    )
    gaps = {"samples:9 - linear, top1": HOLDS, "samples:9 - mlp, top1": OPEN, "samples:9 - mlp, pairwise": FAILS}
    text, said = ours_of("values of 9 continuations", {"vineppo_vs_value_head": {"differences": gaps}})
    assert "over the head linear **+0.200 (+0.100 to +0.300)**; mlp +0.100" in text
    assert said == "holds in 1 of 2"


def test_claims_of_a_figure_go_by_that_figure():
    def spans(words):
        row = {"evaluations": 10, "spans": [0.98, 0.96, 0.99], "words": words}
        table = {"sentences, exact": row, "words, 16 orders and their reverse": {"evaluations": 230}}
        return ours_of("spans reach what words reach", {"scar_spans_vs_tokens": {"table": table}})[1]

    assert spans([0.3, 0.2, 0.4]) == "holds by span, fails by word"
    assert spans([0.95, 0.9, 1.0]) == "holds by span, not shown by word"
    told = {"ratios": {"mc_mean": {"4000": [9, 8.5, 10], "16000": [9, 7, 11]}}}
    told["network_differences"] = {"td - mc_mean, error": [0.1, -0.1, 0.3]}
    said = ours_of("labels by temporal", {"agentprm_labels": told})[1]
    assert said == "holds in 1 of 2 in a table, not shown in a network"
    best = {"1": {"formula": 3.2, "measured": 3}, "64": {"formula": 1.0, "measured": 12}}
    found = [{"best": best}, {"best": {"1": {"formula": 2.0, "measured": 12}}}]
    assert ours_of("how wide a unit", {"window_size": {"found": found[:1]}})[1].startswith("holds")
    assert ours_of("how wide a unit", {"window_size": {"found": found}}) == (
        "best window found in 1 of 3 settings",
        "fails with the variance of a batch",
    )


def test_differences_are_bold_where_the_interval_leaves_out_zero():
    assert signed(HOLDS, 1) == "**+0.2 (+0.1 to +0.3)**"
    assert signed(OPEN, 1) == "+0.1 (−0.1 to +0.3)"
    assert plain(FAILS, 1) == "−0.2 (−0.3 to −0.1)"
    assert table(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"
    assert table(["a", "b"], [], right=1) == "| a | b |\n|---|---:|"


def test_what_is_not_stored_is_not_measured():
    nothing = Found({}, {})
    text = render(CLAIMS, nothing)
    assert text.count("not measured") == len(CLAIMS)
    assert "a | b | x | y | c" in render([Claim("a", "b", "c", lambda found: ("x", "y"))], nothing)


def test_only_what_stands_between_markers_is_written(monkeypatch):
    monkeypatch.setattr(page, "blocks", lambda have: {"one": lambda: "new\n", "two": lambda: "other"})
    text = "a\n<!-- results: one -->\nold\n<!-- /results -->\nb\n<!-- results: two -->\n<!-- /results -->\n"
    made = page.page(text, Found({}, {}))
    assert made == text.replace("old", "new").replace("two -->\n", "two -->\nother\n")
    assert page.page(made, Found({}, {})) == made
    with pytest.raises(KeyError, match="three"):
        page.page(text.replace("two", "three"), Found({}, {}))


def test_a_figure_carries_the_digest_of_its_numbers_and_no_date(tmp_path):
    pytest.importorskip("matplotlib")
    data = {"gigpo": [0.6, 0.4, 0.8], "rloo": [0.5, 0.3, 0.7]}
    figures.draw_better(tmp_path / "a.svg", data)
    figures.draw_better(tmp_path / "b.svg", data)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert figures.digest_in(tmp_path / "a.svg") == figures.digest(data)
    assert figures.digest({**data, "rloo": [0.5, 0.3, 0.71]}) != figures.digest(data)
    assert figures.digest_in(tmp_path / "none.svg") is None


def cell(method, task, value, **more):
    metrics = {name: [value, value - 0.1, value + 0.1] for name in bench_summary.KEPT}
    cost = {name: [10.0, 9.0, 11.0] for name in ("rollouts", "decisions", "calls")}
    return {"method": method, "task": task, "asks": [], "metrics": metrics, "cost": cost, "J": 0.5, **more}


def test_comparisons_under_one_plan_are_kept_together(tmp_path, monkeypatch, capsys):
    head = {"version": "1", "plan": {"seeds": 5}}
    cells = [cell("grpo", "ice", 0.71234), {"method": "abc", "task": "ice", "reason": "no attention"}]
    (tmp_path / "a.json").write_text(json.dumps({**head, "cells": cells}))
    (tmp_path / "b.json").write_text(json.dumps({**head, "cells": [cells[0], cell("grpo", "ice-noisy", 0.6)]}))
    (tmp_path / "c.json").write_text(json.dumps({**head, "plan": {"seeds": 6}, "cells": []}))
    given = ["bench_summary", str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    monkeypatch.setattr(sys, "argv", [*given, "--out", str(tmp_path)])
    bench_summary.main()
    kept = json.loads((tmp_path / "bench.json").read_text())
    assert [(c["method"], c["task"]) for c in kept["cells"]] == [("grpo", "ice"), ("abc", "ice"), ("grpo", "ice-noisy")]
    assert kept["cells"][0]["metrics"]["cosine"] == [0.712, 0.612, 0.812]
    assert exactly.means(kept) == {"grpo": {"ice": 0.712}}
    assert "0.71 → 0.60" in exactly.noise(kept)
    assert exactly.reasons(kept) == "* `abc`: no attention"
    monkeypatch.setattr(sys, "argv", [*given, str(tmp_path / "c.json")])
    with pytest.raises(SystemExit):
        bench_summary.main()
    assert "another plan" in capsys.readouterr().err
