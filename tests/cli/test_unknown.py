"""What ``apportion assign`` says of credit that nobody knows: a question mark, a count, an exit code."""

from dataclasses import replace

import numpy as np
import pytest

import apportion as ap
from tests.chat_server import Server
from tests.make import random_trajectories


def test_unknown_credit_is_no_zero_in_the_table(cli, tmp_path):
    made = random_trajectories(3, forks=False, values=False)[:8]
    ap.write(tmp_path / "runs.jsonl", [replace(t, outcome=None) if n == 1 else t for n, t in enumerate(made)])
    credit = ap.assign("gigpo", ap.by_step(ap.read(tmp_path / "runs.jsonl")))
    unknown = np.flatnonzero(~np.asarray(credit.known_S))
    assert 0 < len(unknown) < len(credit.units)
    code, out, err = cli("assign", tmp_path / "runs.jsonl", "--method", "gigpo")
    assert code == 0
    lost = {credit.units.batch.names()[n] for n in credit.units.traj_of_S[unknown]}
    rows = {
        cells[1].strip(): [c.strip() for c in cells[5:8]]
        for line in out.splitlines()
        if len(cells := line.split("│")) > 7
    }
    assert any(rows[name] == ["?", "?", "?"] for name in lost & set(rows))
    assert f"{len(unknown)} of {len(credit.units)} steps have no known credit" in err


def test_answers_that_nobody_can_read_are_no_success(cli, tmp_path):
    pytest.importorskip("httpx2")
    server = Server()
    server.rule = lambda body: "The agent did well, I think."
    steps = [ap.Step(observation="2 + 2?", action="4"), ap.Step(observation="so?", action="5")]
    ap.write(tmp_path / "runs.jsonl", [ap.Trajectory(steps, group="g", outcome=float(r)) for r in (1, 0)])
    judge = ("--judge", server.url, "--model", "judge-7b")
    code, _, err = cli("assign", tmp_path / "runs.jsonl", "--method", "llm_critic", *judge)
    server.close()
    assert code == 1
    assert "no answer could be used, so no credit is known" in err
