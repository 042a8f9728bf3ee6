"""A server that breaks in every way: no wrong number, no paid answer lost, a clear summary at the end."""

import functools
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("httpx2")

import apportion as ap
from apportion.resources import Asker, Budget, OpenAIServer, Retry
from apportion.resources.openai_reply import MISCOUNTED, SEVERAL
from tests.resources.faulty_server import END, FaultyServer, spelled

HASTY = Retry(attempts=60, first_wait=0.005, longest_wait=0.02, give_up=4)


def rollouts(count=4):
    rng = random.Random(1)
    out = []
    for n in range(count):
        ids = [10 + rng.randrange(7) for _ in range(rng.randrange(2, 5))] + [17 + n % 2, END]
        step = ap.Step(prompt_ids=[3, 4 + n // 2], ids=ids, action=spelled(ids), terminated=True)
        out.append(ap.Trajectory([step], group=f"g{n // 2}", id=f"r{n}", reference="1", outcome=float(n % 2)))
    return out


def credited(url, cache=None, *, timeout=5.0, budget=None, retry=HASTY, workers=4):
    """Credit by continuations, and the summary."""
    units = ap.by_token(ap.Batch.from_trajectories(rollouts()))
    policy = OpenAIServer(url, "tiny", scorer="number", max_tokens=12, key_env=None, timeout=timeout, workers=workers)
    with Asker(policy, cache=cache, retry=retry, budget=budget) as ask:
        return ap.assign("vineppo", units, ask=ask, k=3), ask.summary


@pytest.fixture(scope="module")
def right():
    """Credit where nothing breaks, and how many requests it takes."""
    with FaultyServer() as server:
        credit, summary = credited(server.url)
    assert not summary.failed
    assert np.asarray(credit.known_S).all()
    return credit.advantage_S, summary.asked


STORMS = {
    "429": lambda n, b: "429" if n % 3 else None,
    "429 with a wait": lambda n, b: "429+1" if n in (3, 9) else None,
    "500": lambda n, b: "500" if n % 2 else None,
    "hang up": lambda n, b: "hang up" if n % 4 == 1 else None,
    "cut": lambda n, b: ("cut", "cut off", "no json", None)[n % 4],
    "stall": lambda n, b: "stall" if n in (2, 5) else None,
    "counts": lambda n, b: "counts",
    "twice": lambda n, b: "twice",
    "empty": lambda n, b: "empty" if n % 3 == 1 else None,
}


@pytest.mark.parametrize("storm", STORMS)
def test_a_storm_changes_no_number_and_costs_no_answer(storm, right, tmp_path):
    with FaultyServer(STORMS[storm]) as server:
        credit, summary = credited(server.url, tmp_path / "c", timeout=0.5 if storm == "stall" else 5.0)
        np.testing.assert_array_equal(credit.advantage_S, right[0])
        assert not summary.failed
        assert summary.asked == right[1]
        told = {"counts": {MISCOUNTED: right[1]}, "twice": {SEVERAL: right[1]}}
        assert summary.notes == told.get(storm, {})
        before = sum(server.asked.values())
        again, summary = credited(server.url, tmp_path / "c")
        np.testing.assert_array_equal(again.advantage_S, right[0])
        assert (summary.asked, summary.cached) == (0, right[1])
        assert sum(server.asked.values()) == before


def test_a_server_that_dies_leaves_the_rest_unknown_and_the_next_run_pays_for_that_alone(right, tmp_path):
    with FaultyServer(lambda n, b: "die" if n == 12 else None) as server:
        patience = Retry(attempts=3, first_wait=0.01, longest_wait=0.02, give_up=4)
        credit, summary = credited(server.url, tmp_path / "c", retry=patience)
        paid = +server.told
    assert 0 < summary.asked < right[1]
    assert sum(summary.failed.values()) == right[1] - summary.asked
    assert not np.asarray(credit.known_S).all()
    assert credit.notes["failed_asks"] >= sum(summary.failed.values())  # two asks may share a request
    lines = " ".join(summary.lines())
    assert "without an answer; their units may be unknown" in lines
    assert "requests in a row had failed" in lines
    assert np.isfinite(credit.advantage_S).all()
    with FaultyServer() as server:
        credit, summary = credited(server.url, tmp_path / "c")
        np.testing.assert_array_equal(credit.advantage_S, right[0])
        assert not summary.failed
        assert summary.cached >= len(paid) - 4  # those that were on their way when the server died
        assert summary.asked + summary.cached == right[1]
        assert not [key for key, times in server.asked.items() if times > 1]


@pytest.mark.parametrize("seed", range(4))
def test_any_mixture_of_faults(seed, right, tmp_path):
    rng = random.Random(seed)
    kinds = [None, None, None, "429", "500", "hang up", "cut", "cut off", "no json", "twice", "counts", "empty", "400"]
    plan = [rng.choice(kinds) for _ in range(5000)]
    with FaultyServer(lambda n, b: plan[n]) as server:
        _, summary = credited(server.url, tmp_path / "c")
        failed = sum(summary.failed.values())
        assert summary.asked + failed == right[1]
        told = dict(+server.told)
        server.fault = lambda n, b: None
        credit, summary = credited(server.url, tmp_path / "c")
        np.testing.assert_array_equal(credit.advantage_S, right[0])
        assert summary.asked == failed
        assert all(times == 1 for times in told.values())  # what came whole was never asked again
        assert all(server.told[key] == 1 for key in told)


@pytest.mark.parametrize("limit", [0, 40, 300])
def test_a_budget_holds_in_a_storm(limit, tmp_path):
    with FaultyServer(lambda n, b: ("500", None, "cut", None)[n % 4]) as server:
        budget = Budget(tokens=limit, when_short="partial")
        _, summary = credited(server.url, tmp_path / "c", budget=budget)
        paid = summary.prompt_tokens + summary.generated_tokens
        assert paid <= budget.used_tokens <= limit


def test_two_runs_on_one_cache_agree(right, tmp_path):
    with FaultyServer(delay=0.01) as server:
        code = (
            "import sys; from tests.resources.test_faults import credited\n"
            f"print(credited({server.url!r}, {str(tmp_path / 'c')!r})[0].advantage_S.tolist())"
        )
        runs = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        assert [json.loads(run.communicate(timeout=120)[0]) for run in runs] == [right[0].tolist()] * 2


def command(url, tmp_path, *more):
    path = tmp_path / "runs.jsonl"
    if not path.exists():
        ap.write(path, rollouts())
    asked = ["--resampler", url, "--max-tokens", "12", "--cache", str(tmp_path / "c"), "--k", "3", "--unit", "token"]
    given = [sys.executable, "-m", "apportion", "assign", str(path), "--method", "vineppo", *asked, "--json", *more]
    return given, {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}


def killed_again_and_again(seed, right, tmp_path, kills):
    """Kill the command at random moments of its asking, then let it end."""
    rng = random.Random(seed)
    out = tmp_path / "credit.jsonl"
    with FaultyServer(delay=0.03) as server:
        arguments, env = command(server.url, tmp_path, "--workers", "3", "--out", str(out))
        for _ in range(kills):
            before = sum(server.asked.values())
            run = subprocess.Popen(arguments, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wanted, until = before + rng.randrange(1, 12), time.monotonic() + 60
            while sum(server.asked.values()) < wanted and run.poll() is None and time.monotonic() < until:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.05)
            run.send_signal(signal.SIGKILL)
            run.wait()
        last = subprocess.run(arguments, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert last.returncode == 0, last.stderr
        np.testing.assert_array_equal(ap.read_credit(out).advantage_S, right[0])
        told = json.loads(last.stdout)["asking"]
        assert told["asked"] + told["cached"] == right[1]
        again = sum(server.asked.values()) - right[1]
        assert again <= 3 * kills  # of what was paid for, only what was under way at a kill is paid twice


def test_a_killed_command_goes_on_where_it_was(right, tmp_path):
    killed_again_and_again(0, right, tmp_path, kills=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 34))
def test_a_command_killed_at_any_moment_goes_on_where_it_was(seed, right, tmp_path):
    killed_again_and_again(seed, right, tmp_path, kills=3)


def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(right, tmp_path):
    with FaultyServer(delay=0.05) as server:
        arguments, env = command(server.url, tmp_path, "--workers", "2")
        heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # not so in a shell's background jobs
        told = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "preexec_fn": heard}
        run = subprocess.Popen(arguments, env=env, **told)
        until = time.monotonic() + 60
        while sum(server.told.values()) < 4 and time.monotonic() < until:
            time.sleep(0.005)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
        assert run.returncode == 130, said
        assert "answers are in" in said
        assert "the same command goes on from there" in said
        last = subprocess.run(arguments, env=env, capture_output=True, text=True, timeout=120, check=False)
        assert last.returncode == 0, last.stderr
        told = json.loads(last.stdout)["asking"]
        assert told["cached"] >= 4
        assert sum(server.asked.values()) == right[1]  # nothing was paid twice: a stop waits for what is under way
