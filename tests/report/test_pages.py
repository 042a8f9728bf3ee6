"""The report in pieces says what the whole says, group by group, and small enough."""

import gzip
import json

import numpy as np
import pytest

from apportion.credit import Credit
from apportion.data import Batch, Step, Trajectory
from apportion.report import Report, build_pages, pages, report_model
from apportion.report.levels import levels, spans
from apportion.report.pages import search
from apportion.report.unit_runs import step_values
from apportion.units import by_step, by_token
from tests.make import random_batch, random_units


def pieces(credits):
    report = Report(credits)
    index, packed = build_pages(report, report.header())
    return index, [json.loads(gzip.decompress(page)) for page in packed], packed


def told(model, trajectory, texts, states):
    """A trajectory with texts and states put in, so that positions do not matter."""
    steps = [
        {
            **step,
            "action": texts[step["action"]],
            "context": texts[step["context"]] if "context" in step else None,
            "state": texts[states[step["state"]]["text"]] if "state" in step else None,
        }
        for step in trajectory["steps"]
    ]
    return {**trajectory, "steps": steps, "end": texts[trajectory["end"]] if "end" in trajectory else None}


@pytest.mark.parametrize("weight", [1, 20, 10**9])
def test_the_pieces_are_the_whole(monkeypatch, weight):
    monkeypatch.setattr(pages, "WEIGHT", weight)
    batch = random_batch(3)
    credits = [Credit(np.arange(float(len(u))), u) for u in (by_step(batch), by_token(batch))]
    model = report_model(credits)
    index, parts, _ = pieces(credits)
    assert len(parts) == index["pages"] == {1: len(batch.group_names), 10**9: 1}.get(weight, len(parts))
    seen = set()
    for k, part in enumerate(parts):
        for t, trajectory in part["trajectories"].items():
            whole = model["trajectories"][int(t)]
            assert told(model, trajectory, part["texts"], part["states"]) == told(
                model, whole, model["texts"], model["states"]
            )
            listed = index["trajectories"][int(t)]
            assert listed["page"] == k == index["groups"][listed["group"]]["page"]
            assert listed["id"], listed["outcome"] == (whole["id"], whole["outcome"])
            for c, entry in whole["credit"].items():
                want = [None if x is None else pytest.approx(x, rel=1e-3) for x in step_values(entry)]
                assert listed["values"][c] == want
                assert listed["verdict"][c][0] == entry["verdict"]["step"]
            seen.add(int(t))
    assert seen == set(range(len(batch)))
    assert sum(group["states"] for group in index["groups"]) == len(model["states"])


def test_a_search_finds_what_a_slow_one_finds():
    batch = random_batch(4, ids=False, values=False)
    credit = Credit(np.zeros(len(by_step(batch))), by_step(batch))
    _, _, packed = pieces(credit)
    for query in ("größe", "GRÖSSE", "鍵", "nowhere"):
        slow = {
            n
            for n, t in enumerate(batch)
            if any(query.casefold() in (text or "").casefold() for s in t.steps for text in (s.action, s.observation))
        }
        assert set(search(packed, query)) == slow


def test_levels_that_say_something():
    steps = [{"turn": 0, "agent": "a"}, {"turn": 0, "agent": "b"}, {"turn": 1, "agent": "a"}]
    assert levels(steps) == ["turn", "agent"]
    assert levels([{"turn": 0}, {"turn": 1}]) == []
    assert levels([{"turn": 0}, {"turn": 0}]) == []


@pytest.mark.parametrize("by", ["turn", "agent"])
@pytest.mark.parametrize("seed", range(4))
def test_a_span_is_the_mean_over_its_known_tokens(by, seed):
    units = random_units(seed)
    rng = np.random.default_rng(seed)
    credit = Credit(rng.normal(size=len(units)), units, known_S=rng.random(len(units)) < 0.7)
    for trajectory in report_model(credit)["trajectories"]:
        entry = trajectory["credit"]["0"]
        values = step_values(entry)
        found = spans(trajectory, "0", by)
        assert sorted(s for span in found for s in span.steps) == list(range(len(values)))
        for span in found:
            assert (
                len(
                    {
                        trajectory["steps"][s]["turn"] if by == "turn" else trajectory["steps"][s].get("agent")
                        for s in span.steps
                    }
                )
                == 1
            )
            tokens = [
                x
                for s in span.steps
                for x in [values[s]] * max(1, sum(run[2] for run in entry["runs"][s]))
                if x is not None
            ]
            assert span.value == (pytest.approx(np.mean(tokens)) if tokens else None)


def test_findings_of_the_checks_are_told():
    batch = Batch.from_trajectories([Trajectory([Step(action="a", reward=1.0)])])
    model = report_model([Credit(np.zeros(1), by_step(batch), method="m")])
    codes = {(finding["about"], finding["code"]) for finding in model["findings"]}
    assert any("group" in code and about == "rollouts" for about, code in codes)
    assert any(about == "m" for about, code in codes)
    order = [("error", "warning", "info").index(finding["severity"]) for finding in model["findings"]]
    assert order == sorted(order)
    assert all(finding["message"] and finding["remedy"] for finding in model["findings"])
